"""What is said on the bus, for those who listen in: an AsyncAPI document and a page, both made from the messages."""
