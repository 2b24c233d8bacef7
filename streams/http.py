"""HTTP/1.1 connections, both ends: the names their users import."""

from streams.client import ClientConnection
from streams.incoming import DISCARD_LIMIT, Incoming
from streams.outgoing import Outgoing
from streams.server import ServerConnection
from streams.sinks import BodySink, ResponseSink
from streams.timing import Clock, Timeouts

__all__ = [
    "ServerConnection",
    "Incoming",
    "BodySink",
    "ClientConnection",
    "ResponseSink",
    "Outgoing",
    "Clock",
    "Timeouts",
    "DISCARD_LIMIT",
]
