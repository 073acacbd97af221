"""The parts of discord.py that we use; it warns of a module of Python's that only voice needs."""

import warnings

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="'audioop' is deprecated", category=DeprecationWarning)
    import discord
    from discord import ConnectionClosed, Intents
    from discord.gateway import DiscordWebSocket, ReconnectWebSocket

__all__ = ["ConnectionClosed", "DiscordWebSocket", "Intents", "ReconnectWebSocket", "discord"]
