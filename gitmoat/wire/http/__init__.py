"""HTTP/1.1 as both hops read and write it: heads, bodies, and what is asked of a proxy."""
