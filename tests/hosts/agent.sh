#!/bin/sh
# agent.sh HOST COMMAND...: runs a command on a host that tests/hosts/run.sh has made; launchers call it instead of ssh.
# BRIGADE_HOSTS_PREFIX is the prefix of the namespaces' names, and BRIGADE_HOSTS_FILE their common /etc/hosts.
while :; do
    case ${1:-} in
    -[lpo]) shift 2 ;;
    -*) shift ;;
    *) break ;;
    esac
done
host=$1
shift
exec ip netns exec "$BRIGADE_HOSTS_PREFIX$host" unshare --uts sh -c '
    hostname "$0" && mount --bind "$BRIGADE_HOSTS_FILE" /etc/hosts && exec sh -c "$*"' "$host" "$@"
