"""HTTP/1.1 connections, both ends: the names their users import."""

from gitmoat.net.http.client_end import ClientConnection
from gitmoat.net.http.incoming import DISCARD_LIMIT, Incoming
from gitmoat.net.http.outgoing import Outgoing
from gitmoat.net.http.server_end import ServerConnection
from gitmoat.net.http.sinks import BodySink, ResponseSink
from gitmoat.net.timing import Clock, Timeouts

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
