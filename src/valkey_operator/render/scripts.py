"""The few lines of shell in a pod: the server's entry point, its preStop hook, and the sidecar's supervisor.

The other halves are in `sidecar/door.py` and `sidecar/handover.py`.
"""

from __future__ import annotations

# In any image with a shell and `sleep`. It stays and starts the server again when that has ended, because the kubelet
# would wait longer and longer before it does; and it must not end while the gate is closed. Each start reads a word of
# its own from the FIFO. After the preStop hook nothing is started again. Told to end, it does so with an error: then
# the kubelet shows the last lines of the log in the pod's status, where whoever may not read logs finds them.
ENTRY_POINT = """\
cd /data
: >/run/valkey/stopping
trap 'stopped=yes; [ "$server" ] && kill -TERM "$server"' TERM
until [ "$stopped" ] || [ -s /run/valkey/stopping ]; do
  /bin/sh -c '
    until [ -p /run/valkey/gate ]; do sleep 0.05; done
    echo $$ >/run/valkey/pid
    read -r word </run/valkey/gate
    [ "$word" = start ] && exec valkey-server /run/valkey/valkey.conf
    [ "$word" != end ] || exit 70
  ' &
  server=$!
  wait "$server"
  [ $? = 70 ] && exit 1
  [ "$stopped" ] && wait "$server"
done
"""

# Opened for both ways a FIFO blocks nobody, and a question waits in it for a sidecar that is just starting. Where there
# is none yet, to open it would make a file, through which nobody is ever heard; and where none comes, there is no
# sidecar, which alone could have let a server in.
# The answer names the question, which is asked again every second: a sidecar that is killed takes the one it has read
# with it. In a pod that ends, the kubelet does not start a sidecar's container again that was
# killed: then nobody would answer, and at the end of its grace the server would be killed too. It answers itself, and
# the server is told to end in good order.
HOOK = """\
echo yes >/run/valkey/stopping
until [ -p /run/valkey/handover ] && [ -p /run/valkey/handed-over ]; do
  waited=1$waited
  [ "$waited" = 11111111111111111111 ] && exit
  sleep 0.5
done
exec 3<>/run/valkey/handover 4<>/run/valkey/handed-over
echo $$ >&3
(
  until [ "$gone" = 111 ]; do
    sleep 1
    echo $$ >&3
    read -r sidecar </run/valkey/sidecar
    [ -d "/proc/$sidecar" ] && gone= || gone=1$gone
  done
  echo $$ >&4
) </dev/null >/dev/null 2>&1 &
until [ "$answer" = "$$" ]; do read -r answer <&4; done
kill $! 2>/dev/null || true
"""

# Starts the sidecar again at once when it ends; the kubelet would wait ten seconds and more. SIGTERM comes to all
# containers of a pod at once: the sidecar ends when it may, and one that fails meanwhile is started again and told so.
# What this opens, each sidecar inherits: so a lock of one is still held while the next one starts. It makes the FIFOs:
# the entry point would else look for the gate twenty times a second, just when all start, and a pod may be deleted
# before its sidecar runs.
SUPERVISOR = """\
echo $$ >/run/valkey/sidecar
for fifo in /run/valkey/gate /run/valkey/handover /run/valkey/handed-over; do
  [ -p "$fifo" ] || mkfifo -m 660 "$fifo"
done
lock=/data/.valkey-operator/lock
mkdir -p "${lock%/*}"
true 9<>"$lock" && exec 9<>"$lock"
trap 'export STOPPING=yes; kill -TERM "$child"' TERM
until [ "$STOPPING" ] && [ "$code" = 0 ]; do
  python3.13 -S -m valkey_operator.sidecar &
  child=$!
  wait "$child"
  code=$?
  while kill -0 "$child" 2>/dev/null; do
    wait "$child"
    code=$?
  done
  sleep 0.1
done
"""
