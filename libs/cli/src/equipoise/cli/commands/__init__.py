"""The commands that are declared in one file. A larger command is a folder beside this one."""
