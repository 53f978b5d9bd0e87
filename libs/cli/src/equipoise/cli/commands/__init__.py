"""The commands that are one file. A larger command is a folder beside this one."""
