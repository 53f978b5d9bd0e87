"""Writes the example trace to where it ships from."""

from equipoise.lab.example import FOLDER, example_trace
from equipoise.lab.formats.folder import write

if __name__ == "__main__":
    write(example_trace(), FOLDER)
