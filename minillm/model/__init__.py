"""The model floor: torch lives here and nowhere below.

Importing this package imports nothing heavy; import the module that you need."""

import os as _os

# How long a thread of torch's pool (GNU OpenMP) spins while it waits for the others before it
# sleeps. The default, some 15 ms, makes two threads ten times slower than one as soon as another
# process wants a core. It is read when torch is loaded, so it has to be set before that.
_os.environ.setdefault("GOMP_SPINCOUNT", "1000")
