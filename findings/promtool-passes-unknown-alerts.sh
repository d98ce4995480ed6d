#!/usr/bin/env bash
# `promtool test rules` (Debian's prometheus 2.42.0+ds-5+deb12u1) calls a test a success that expects no alert by a name which no rule has, as
# after a typo or when an alert was renamed: the alert that does fire under the same series is not looked at. And where `rule_files` names a file
# that is not there, it warns, and the test of its rules succeeds. What is meant to show that an alert stays quiet shows nothing.
# Exits non-zero if that changes.
set -euo pipefail
version=2.42.0+ds-5+deb12u1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
# Debian 12, amd64 or arm64. Needs the lists of packages (apt-get update).
apt-get download -q "prometheus=$version" > download.log 2>&1 || {
  cat download.log >&2
  exit 1
}
dpkg-deb -x prometheus_*.deb whole
cat > rules.yaml <<'YAML'
groups:
  - name: errors
    rules:
      - {alert: TooManyErrors, expr: errors > 5}
YAML
check() {
  cat > test.yaml <<YAML
rule_files: [$1]
tests:
  - interval: 1m
    input_series: [{series: errors, values: 9x10}]
    alert_rule_test:
      - {eval_time: 5m, alertname: $2, exp_alerts: []}
YAML
  status=0
  said=$(whole/usr/bin/promtool test rules test.yaml 2>&1) || status=$?
  echo "promtool ${version%%+*}, $1, no $2 expected: $(grep -oE 'SUCCESS|FAILED|WARNING.*' <<< "$said" | xargs)"
}

check rules.yaml TooManyErrors
[ "$status" -eq 1 ]
check rules.yaml TooManyError
[ "$status" -eq 0 ]
check rule.yaml TooManyErrors
[ "$status" -eq 0 ]
