# hosts.bash -- two network namespaces as two hosts with a shared folder. Needs root. Sourced.
#
#   hosts_up; hosts_down
#   $va, $vb              their names, unique on this machine
#   on $va COMMAND...     runs COMMAND on that host, whose name is its hostname
#   in_reach on|off       connects or disconnects the second host
#   OMPI_MCA_...          mpirun finds both hosts

agent=$work/agent
va=va$$ vb=vb$$ bridge=vl$$
net=10.77.$(($$ % 256)) # on a private bridge, so the same addresses elsewhere do not conflict
hosts_up() {
    local n=0 host
    ip link add $bridge type bridge
    ip link set $bridge up
    for host in $va $vb; do
        n=$((n + 1))
        ip netns add $host
        ip link add $host-out type veth peer name eth0 netns $host
        ip link set $host-out master $bridge up
        ip -n $host addr add $net.$n/24 dev eth0
        ip -n $host link set eth0 up
        ip -n $host link set lo up
    done
    for host in $va $vb; do # ip netns exec mounts this folder's hosts file over /etc/hosts
        mkdir -p /etc/netns/$host
        printf '127.0.0.1 localhost\n%s.1 %s\n%s.2 %s\n' $net $va $net $vb >/etc/netns/$host/hosts
    done
    # mpirun calls this to start a process on another host: HOST COMMAND...
    cat >"$agent" <<'END'
#!/bin/bash
host=$1
shift
exec ip netns exec "$host" unshare --uts bash -c 'hostname "$0"; exec sh -c "$*"' "$host" "$@"
END
    chmod +x "$agent"
    printf '%s slots=2\n' $va $vb >"$work/hosts"
    export OMPI_MCA_orte_default_hostfile=$work/hosts OMPI_MCA_plm_rsh_agent=$agent OMPI_MCA_plm=rsh
    export OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=$net.0/24 OMPI_MCA_oob_tcp_if_include=$net.0/24
    export OMPI_MCA_rmaps_base_mapping_policy=node # ranks in turn on both
}
hosts_down() {
    local host
    for host in $va $vb; do
        ip netns del $host 2>/dev/null
        ip link del $host-out 2>/dev/null
        rm -rf /etc/netns/$host
    done
    ip link del $bridge 2>/dev/null
}
on() {
    local host=$1
    shift
    ip netns exec "$host" unshare --uts bash -c 'hostname "$0"; exec "$@"' "$host" "$@"
}
in_reach() {
    if [ "$1" = on ]; then ip link set $vb-out up; else ip link set $vb-out down; fi
}
