"""Small asyncio functions that services share."""
