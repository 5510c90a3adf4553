"""The control plane as plain processes: etcd, API server, controllers, scheduler, DNS, volumes."""

from __future__ import annotations

import base64
import sys
from pathlib import Path

from devcluster.binaries import Binaries
from devcluster.files import keep
from devcluster.places import Record, state_root
from devcluster.processes import Component

MANIFESTS = Path(__file__).parent / "manifests"
ETCD = "http://127.0.0.1:2379"


def components(record: Record, binaries: Binaries) -> dict[str, Component]:
    """Every process of the control plane by name, in the order in which they are started."""
    parts = [
        _etcd(record, binaries),
        _apiserver(record, binaries),
        _controller_manager(record, binaries),
        _scheduler(record, binaries),
        _dns(record, binaries),
        _storage(record),
        proxy(record, binaries, "control", "control-plane"),
    ]
    if record.metrics:
        parts.append(_metrics(record, binaries))
    return {part.name: part for part in parts}


def _flags(**values: object) -> list[str]:
    return [f"--{key.replace('_', '-')}={value}" for key, value in values.items()]


def _etcd(record: Record, binaries: Binaries) -> Component:
    flags = _flags(
        data_dir=record.folder / "etcd",
        listen_client_urls=ETCD,
        advertise_client_urls=ETCD,
        listen_peer_urls="http://127.0.0.1:2380",
        unsafe_no_fsync="true",  # the disk may lose what a real power cut would; test data, worth the speed
        log_level="warn",
    )
    return Component("control/etcd", (binaries["etcd"], *flags))


def audit_log(record: Record) -> Path:
    return record.folder / "log" / "audit.log"


def _apiserver(record: Record, binaries: Binaries) -> Component:
    pki, plan = record.folder / "pki", record.addresses
    flags = _flags(
        etcd_servers=ETCD,
        advertise_address=plan.api,
        bind_address=plan.api,
        secure_port=6443,
        tls_cert_file=pki / "apiserver.crt",
        tls_private_key_file=pki / "apiserver.key",
        client_ca_file=pki / "ca.crt",
        kubelet_client_certificate=pki / "kubelet-client.crt",
        kubelet_client_key=pki / "kubelet-client.key",
        kubelet_certificate_authority=pki / "ca.crt",
        kubelet_preferred_address_types="InternalIP",
        service_account_issuer="https://kubernetes.default.svc",
        service_account_key_file=pki / "service-account.pub",
        service_account_signing_key_file=pki / "service-account.key",
        service_cluster_ip_range=plan.services,
        authorization_mode="Node,RBAC",
        enable_admission_plugins="NodeRestriction",
        allow_privileged="true",
        requestheader_client_ca_file=pki / "ca.crt",
        requestheader_allowed_names="front-proxy",
        requestheader_username_headers="X-Remote-User",
        requestheader_group_headers="X-Remote-Group",
        requestheader_extra_headers_prefix="X-Remote-Extra-",
        proxy_client_cert_file=pki / "front-proxy.crt",
        proxy_client_key_file=pki / "front-proxy.key",
        enable_aggregator_routing="true",
        audit_policy_file=MANIFESTS / "audit.yaml",
        audit_log_path=audit_log(record),
        audit_log_maxsize=2000,
        audit_log_maxbackup=1,
    )
    return Component("control/apiserver", (binaries["kube-apiserver"], *flags))


def _kubeconfigs(record: Record, user: str) -> list[str]:
    file = record.folder / "pki" / f"{user}.kubeconfig"
    return _flags(kubeconfig=file, authentication_kubeconfig=file, authorization_kubeconfig=file)


def _controller_manager(record: Record, binaries: Binaries) -> Component:
    pki = record.folder / "pki"
    flags = _flags(
        service_account_private_key_file=pki / "service-account.key",
        root_ca_file=pki / "ca.crt",
        cluster_signing_cert_file=pki / "ca.crt",
        cluster_signing_key_file=pki / "ca.key",
        use_service_account_credentials="true",
        leader_elect="false",
        bind_address="127.0.0.1",
    )
    command = (binaries["kube-controller-manager"], *_kubeconfigs(record, "controller-manager"), *flags)
    return Component("control/controller-manager", _again_and_again(*command))


def _scheduler(record: Record, binaries: Binaries) -> Component:
    flags = _flags(leader_elect="false", bind_address="127.0.0.1")
    command = (binaries["kube-scheduler"], *_kubeconfigs(record, "scheduler"), *flags)
    return Component("control/scheduler", _again_and_again(*command))


def _again_and_again(*command: str) -> tuple[str, ...]:
    """As a kubelet would: the scheduler ends by itself when an API server that came back has confused it."""
    return ("sh", "-c", 'while :; do "$@"; sleep 1; done', "sh", *command)


def _dns(record: Record, binaries: Binaries) -> Component:
    corefile = record.folder / "Corefile"
    keep(
        corefile,
        f"""\
.:53 {{
    bind {record.addresses.dns}
    errors
    ready {record.addresses.dns}:8181
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {record.folder / "pki" / "dns.kubeconfig"}
        pods insecure
        ttl 1
    }}
    cache 1
}}
""",
    )
    return Component("control/dns", (binaries["coredns"], "-conf", str(corefile)))


def _storage(record: Record) -> Component:
    command = (sys.executable, "-m", "devcluster.storage", record.name)
    return Component("control/storage", command, {"DEVCLUSTER_STATE": str(state_root())})


def _metrics(record: Record, binaries: Binaries) -> Component:
    pki = record.folder / "pki"
    flags = _flags(
        tls_cert_file=pki / "metrics-server.crt",
        tls_private_key_file=pki / "metrics-server.key",
        kubelet_certificate_authority=pki / "ca.crt",
        kubelet_preferred_address_types="InternalIP",
        bind_address=record.addresses.api,
        secure_port=4443,
        metric_resolution="10s",
        kubelet_request_timeout="5s",
    )
    return Component(
        "control/metrics", (binaries["metrics-server"], *_kubeconfigs(record, "metrics"), *flags)
    )


def manifests(record: Record) -> list[Path]:
    """What is applied to every new cluster."""
    wanted = [MANIFESTS / "cluster.yaml"]
    if record.metrics:
        filled = (MANIFESTS / "metrics.yaml").read_text().replace("$ADDRESS", record.addresses.api)
        authority = base64.b64encode((record.folder / "pki" / "ca.crt").read_bytes()).decode()
        file = record.folder / "metrics.yaml"
        keep(file, filled.replace("$AUTHORITY", authority))
        wanted.append(file)
    return wanted


def proxy(record: Record, binaries: Binaries, place: str, node: str) -> Component:
    """kube-proxy of a node, or of the control plane, where it serves the host and the API server."""
    file = record.folder / f"proxy-{place}.yaml"
    keep(
        file,
        f"""\
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {{kubeconfig: {record.folder / "pki" / "proxy.kubeconfig"}}}
mode: iptables
clusterCIDR: {record.addresses.pods}
hostnameOverride: {node}
healthzBindAddress: 127.0.0.1:10256
metricsBindAddress: 127.0.0.1:10249
conntrack: {{maxPerCore: 0, min: 0}}
iptables: {{minSyncPeriod: 0s}}
""",
    )
    return Component(f"{place}/proxy", (binaries["kube-proxy"], f"--config={file}"))
