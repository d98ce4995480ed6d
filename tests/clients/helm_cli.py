"""As much of Helm's command line as people need to install, uninstall and publish, on the Helm engine.

HELM_VALUES, a JSON object, is merged over the chart's values and under those of --set.
"""

import argparse
import json
import os

import helm_python as helm


def merged(below, above):
    """`above` wins; maps are merged, lists replaced."""
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    return {**below, **{key: merged(below.get(key), value) for key, value in above.items()}}


def install(kube, args):
    """Also `upgrade --install`: a release that is there already gets the chart as it is now."""
    chart = helm.Chart.load(args.chart)
    values = json.loads(os.environ.get("HELM_VALUES", "{}"))
    if args.release == "codebutler-crds":
        values = {}
    for expression in args.set:
        values = merged(values, helm.parse_set_string(expression))
    if args.upgrades and args.release in {release["name"] for release in kube.list()}:
        kube.upgrade(chart, args.release, values)
    else:
        kube.install(chart, args.release, values, create_namespace=args.create_namespace)
    for path, text in chart.render(values, name=args.release, namespace=args.namespace).items():
        if path.endswith("NOTES.txt"):
            print(text)


def package(_, args):
    print(helm.package(args.chart, destination=args.destination, version=args.version, app_version=args.app_version))


def push(_, args):
    print(helm.push(args.archive, args.remote, plain_http=args.plain_http))


parser = argparse.ArgumentParser(prog="helm")
parser.add_argument("--namespace", "-n", default="default")
commands = parser.add_subparsers(required=True)
for name, action in [("install", install), ("upgrade", install), ("uninstall", lambda k, a: k.uninstall(a.release))]:
    command = commands.add_parser(name)
    command.set_defaults(action=action, upgrades=name == "upgrade")
    command.add_argument("release")
    command.add_argument("--namespace", "-n", default=argparse.SUPPRESS)
    if name == "upgrade":
        command.add_argument("--install", action="store_true", required=True)
    if action == install:
        command.add_argument("chart")
        command.add_argument("--create-namespace", action="store_true")
        command.add_argument("--set", action="append", default=[])
command = commands.add_parser("package")
command.set_defaults(action=package)
command.add_argument("chart")
for option in ["--destination", "--version", "--app-version"]:
    command.add_argument(option)
command = commands.add_parser("push")
command.set_defaults(action=push)
command.add_argument("archive")
command.add_argument("remote")
command.add_argument("--plain-http", action="store_true")
args = parser.parse_args()
publishes = args.action in (package, push)
config = None if publishes else helm.Config(kubeconfig_path=os.environ["KUBECONFIG"], namespace=args.namespace)
args.action(config, args)
