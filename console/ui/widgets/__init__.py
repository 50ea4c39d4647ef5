"""The widgets: a virtual table, a page of lines, single rows, and the prompt."""
