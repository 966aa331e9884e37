#!/bin/sh
# peak_memory.sh PID SECONDS: checks the process at this interval until it ends, and prints the largest amount of
# anonymous memory that it had, in kB (RssAnon of /proc/PID/status, without pages of files).
set -u

peak=0
while now=$(sed -n 's/^RssAnon:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$1/status" 2>/dev/null) && [ -n "$now" ]; do
    [ "$now" -gt "$peak" ] && peak=$now
    sleep "$2"
done
echo "$peak"
