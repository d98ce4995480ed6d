"""Holds an exported trajectory against the validator of the format's authors. TRAJECTORY: its file."""

import json
import os
import sys

from harbor.utils.trajectory_validator import TrajectoryValidator

path = os.environ["TRAJECTORY"]
validator = TrajectoryValidator()
if not validator.validate(path):
    sys.exit("\n".join(str(error) for error in validator.errors))

with open(path, encoding="utf-8") as file:
    trajectory = json.load(file)
steps = trajectory["steps"]
total = trajectory["final_metrics"]["extra"]["cost_usd"]
metered = [step for step in steps if "metrics" in step]
if not metered:
    sys.exit("no step has a cost")
paid = sum(round(float(step["metrics"]["extra"]["cost_usd"]) * 1e9) for step in metered)
if paid != round(float(total) * 1e9):
    sys.exit(f"the steps cost {paid / 1e9} and all of it {total}")
