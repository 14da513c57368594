"""Whole folders, buckets and lists of archives: a row for each file, and what the rows tell.

A file is read by a process of its own (``child``), which the survey outlives (``reader``); files go
to these one after the other, or by Dask to many (``running``). Rows are kept as they come, in a
folder that the next run begins from (``dataset``). What they tell together is a ``summary``, shown
by a ``page``; a ``gate`` checks them by ``rules``. May import all rooms below the command line.
"""
