"""The chat platforms that are part of the product; see `actors.gateway.registry`."""
