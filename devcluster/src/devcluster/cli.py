"""The command line: one command for everything a person or a script does with a cluster."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

from devcluster import fault_cli, helm, image_build, report
from devcluster.binaries import kubernetes_minors
from devcluster.cluster import Cluster, EmbeddedCluster
from devcluster.embedded import Wish
from devcluster.places import beside, state_root
from devcluster.problem import Problem
from devcluster.processes import Processes
from devcluster.progress import Progress
from devcluster.provider import PROVIDERS, checkout, choose


def main() -> None:
    # A closed terminal or a polite end lets `up` undo what it had begun, as Ctrl-C does.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda got, _: sys.exit(128 + got))
    try:
        sys.exit(run(sys.argv[1:]))
    except Problem as problem:
        sys.exit(f"devcluster: {problem}")
    except OSError as error:
        sys.exit(f"devcluster: the machine refused: {error}")
    except KeyboardInterrupt:
        sys.exit("devcluster: stopped by you")


def run(arguments: list[str]) -> int:
    # Everything behind the first -- is a command of its own, with all its words.
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = _parser().parse_args(arguments[:end])
    options.command = arguments[end + 1 :]
    result: int = options.do(options)
    return result


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="devcluster", description="A real Kubernetes on this machine, with faults to order."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text)
        made.add_argument("--name", help="which cluster; each checkout has a default of its own")
        made.add_argument("--provider", help=f"{', '.join(PROVIDERS)}; default: PROVIDER, else what serves")
        return made

    up = command("up", "bring a cluster up, or back up; changes nothing that is well")
    up.add_argument("--nodes", type=int, help="1 to 5, default 3, each in a zone of its own")
    up.add_argument("--kubernetes", help=f"minor version: {', '.join(kubernetes_minors())}")
    up.add_argument("--metrics", action="store_true", help="run metrics-server too")
    up.add_argument("--fresh", action="store_true", help="drop the data of a cluster that is there")
    up.set_defaults(do=_up)

    command("down", "end the cluster and remove everything of it").set_defaults(do=_down)

    status = command("status", "how the cluster is; --all lists every cluster of this machine")
    status.add_argument("--all", action="store_true")
    status.set_defaults(do=_status)

    images = command("images", "build the project's images that changed")
    images.add_argument("image", nargs="*", help="default: all of images/images.toml")
    images.set_defaults(do=_images)

    load = command("load", "put images into every node that lacks them")
    load.add_argument("image", nargs="+", help="a name from images/images.toml, `all`, or an archive's path")
    load.set_defaults(do=_load)

    command("kubeconfig", "print the path of the cluster's kubeconfig").set_defaults(do=_kubeconfig)

    logs = command("logs", "show a component's log, such as control/apiserver or node1/kubelet")
    logs.add_argument("component", nargs="?", help="without it: list them")
    logs.add_argument("--follow", "-f", action="store_true")
    logs.set_defaults(do=_logs)

    shell = command("shell", "a shell with kubectl set up, or `shell -- COMMAND …` to run one command")
    shell.add_argument("place", nargs="?", help="run in the network of this node, or of `control`")
    shell.set_defaults(do=_shell)

    kubectl = command("kubectl", "run `kubectl -- COMMAND …` against the cluster")
    kubectl.set_defaults(do=_kubectl)

    charts = command("helm", "run `helm -- COMMAND …` against the cluster; Helm is built where there is none")
    charts.set_defaults(do=_helm)

    fault_cli.add(command("fault", "break something on purpose, list what is broken, heal it"), embedded)
    return parser


def _chosen(options: argparse.Namespace) -> Cluster:
    return choose(options.provider, options.name)


def embedded(options: argparse.Namespace) -> EmbeddedCluster:
    cluster = _chosen(options)
    if not isinstance(cluster, EmbeddedCluster):
        raise Problem(f"this works only on the embedded cluster, not with provider {cluster.provider}")
    return cluster


def _up(options: argparse.Namespace) -> int:
    cluster = _chosen(options)
    cluster.up(Wish(options.nodes, options.kubernetes, options.metrics, options.fresh), Progress())
    print(cluster.status())
    return 0


def _down(options: argparse.Namespace) -> int:
    """And what tests that were interrupted have left beside it."""
    cluster = _chosen(options)
    if not cluster.down(Progress()) and cluster.provider == "embedded":
        print(f"there is no cluster {cluster.name}")
    for folder in state_root().glob(f"{beside(cluster.name)}*") if cluster.provider == "embedded" else ():
        EmbeddedCluster(folder.name).down(Progress())
    return 0


def _status(options: argparse.Namespace) -> int:
    print(report.listing() if options.all else _chosen(options).status())
    return 0


def _archives(names: list[str]) -> list[Path]:
    known = image_build.recipes(checkout() / "images")
    archives = []
    for name in known if names == ["all"] else names:
        if name in known:
            archives.append(known[name].archive)
        elif Path(name).is_file():
            archives.append(Path(name))
        else:
            raise Problem(f"{name!r} is neither an archive nor one of {', '.join(known)}")
    return archives


def _images(options: argparse.Namespace) -> int:
    known = image_build.recipes(checkout() / "images")
    unknown = [name for name in options.image if name not in known]
    if unknown:
        raise Problem(f"there is no image {unknown[0]!r}; images/images.toml has {', '.join(known)}")
    wanted = [known[name] for name in options.image or known]
    for recipe, archive in zip(wanted, image_build.build(wanted, Progress()), strict=True):
        print(f"{recipe.name:32} {archive.stat().st_size / 1e6:6.1f} MB  {archive}")
    return 0


def _load(options: argparse.Namespace) -> int:
    loaded = _chosen(options).load(_archives(options.image))
    print("\n".join(loaded) or "every node has them already")
    return 0


def _kubeconfig(options: argparse.Namespace) -> int:
    print(_chosen(options).kubeconfig)
    return 0


def _kubectl(options: argparse.Namespace) -> int:
    kubectl = _chosen(options).kubectl
    command = [kubectl.program, f"--kubeconfig={kubectl.kubeconfig}", *options.command]
    return subprocess.run(command, check=False).returncode


def _helm(options: argparse.Namespace) -> int:
    if not options.command:
        raise Problem("say what helm shall do, such as `devcluster helm -- list --all-namespaces`")
    environment = {**os.environ, "KUBECONFIG": str(_chosen(options).kubeconfig)}
    return subprocess.run(
        [helm.program(Progress()), *options.command], env=environment, check=False
    ).returncode


def _logs(options: argparse.Namespace) -> int:
    record = embedded(options).record
    log = Processes(record).log(options.component or "")
    if options.component is None or not log.exists():
        names = sorted(file.stem.replace("-", "/", 1) for file in (record.folder / "log").glob("*-*.log"))
        if options.component:
            raise Problem(f"{options.component!r} has no log; there are {', '.join(names)}")
        print("\n".join(names))
        return 0
    return subprocess.call(["tail", "-n", "200", *(["-f"] if options.follow else []), str(log)])


def _shell(options: argparse.Namespace) -> int:
    cluster = embedded(options)
    environment = {
        **os.environ,
        "KUBECONFIG": str(cluster.kubeconfig),
        "PATH": f"{cluster.binaries.path}:{os.environ['PATH']}",
    }
    inside: list[str] = []
    if options.place:
        if options.place not in ["control", *cluster.node_names]:
            raise Problem(
                f"{options.place!r} is no place; there are control, {', '.join(cluster.node_names)}"
            )
        inside = ["nsenter", f"--net={Processes(cluster.record).namespace(options.place)}"]
    command = options.command or [os.environ.get("SHELL", "bash")]
    return subprocess.call([*inside, *command], env=environment)


if __name__ == "__main__":
    main()
