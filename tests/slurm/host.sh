#!/usr/bin/env bash
# One host of the test network, as the first process of its own namespaces: when it ends, the kernel ends everything on the host.
# It lives as long as its standard input is open, so no host outlives the process that started it, however that one dies.
#   host.sh NAME HOSTS_FILE [COMMAND...]    then, on standard input: the address of eth0 (may be empty), once eth0 is plugged in
set -eu
name=$1 hosts=$2
shift 2
echo "$name" >/proc/sys/kernel/hostname
mount --bind "$hosts" /etc/hosts
mount -t tmpfs shm /dev/shm
ip link set lo up
echo namespaces
read -r address
if [[ -n $address ]]; then
    ip addr add "$address" dev eth0
    ip link set eth0 up
fi
if (($#)); then
    "$@" </dev/null &
fi
echo up
while read -r _; do :; done
