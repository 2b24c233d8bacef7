"""HTTP/1.1 connections, transfers between two of them, and sequenced-packet sockets, on Twisted.

Trusted with: moving every byte of a transfer, in order, in constant memory, or cutting both ends.
Never holds: a credential, a policy or a decision; whole bodies.
Hears: bytes of both peers. Speaks to: the sinks and callbacks its users give it.

In the order in which bytes pass the files:

accepting, dialling     a socket, of a listener or to a peer
descriptor, tls         read, decrypted, written at once or queued; `openssl` is below `tls`
connection              what has come and is not used yet; server and client have it in common
server, incoming        a request's head; its body, piece by piece, and our answer to it
client, sinks           our request; the answer's head, and its body piece by piece
raw                     an end of a tunnel, in which no HTTP is spoken
relay, tunnel           from one end to the other, through the `stages`
outgoing                a body in its framing, on its way out; then descriptor or tls again

Beside them: causes (why something ended), timing, epoll (the loop), hangups (peers that leave while
nobody reads them), memory (given back after long transfers), whole (a small answer), seqpacket
(control sockets), http (the names that users import).
"""
