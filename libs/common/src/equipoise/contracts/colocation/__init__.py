"""Co-location: requested but idle resources, offered to pods of lower priority. Names are Koordinator's."""
