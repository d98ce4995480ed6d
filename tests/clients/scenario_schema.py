"""Holds the scenarios against the schema that editors use: ruamel.yaml (YAML 1.2: `on` is a word) reads them."""

import copy
import json
import os
import pathlib

import jsonschema
from ruamel.yaml import YAML

folder = pathlib.Path(os.environ["FOLDER"])
schema = json.loads((folder / "schema.json").read_text())
yaml = YAML(typ="safe")
judge = jsonschema.Draft202012Validator
judge.check_schema(schema)
judge = judge(schema)

scenarios = sorted(folder.glob("*.yaml"))
assert len(scenarios) >= 8, scenarios
for path in scenarios:
    scenario = yaml.load(path.read_text())
    errors = [f"{path.name}: {e.json_path}: {e.message}" for e in judge.iter_errors(scenario)]
    assert not errors, "\n".join(errors)

good = yaml.load((folder / "from-kubectl.yaml").read_text())


def wrong(change):
    scenario = copy.deepcopy(good)
    change(scenario)
    return not judge.is_valid(scenario)


assert not wrong(lambda s: None)
assert wrong(lambda s: s.pop("expect"))
assert wrong(lambda s: s.update(nmae="x"))
assert wrong(lambda s: s["conversation"].append({"user": "ana"}))
assert wrong(lambda s: s["conversation"].append({"user": "ana", "says": "x", "wait": {"pods": 0}}))
assert wrong(lambda s: s["conversation"].append({"wait": {"pods": 0, "volumes": 0}}))
assert wrong(lambda s: s["models"]["pm"].append({"usage": {"cost": 1}}))
assert wrong(lambda s: s["models"]["pm"].append({"say": "x", "fault": {"status": 200}}))
assert wrong(lambda s: s["expect"].update(files="unchangd"))
assert wrong(lambda s: s["expect"].update(pull_request="opened"))
assert wrong(lambda s: s["expect"]["cost"].update(total="half"))
