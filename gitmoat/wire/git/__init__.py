"""Git's smart HTTP as both hops read and write it: requests, pkt-lines, and the commands of a
push.
"""
