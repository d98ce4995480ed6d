//! Commands by tier, and what a repository may say of them.

use super::*;
use crate::policy::rules::Rules;

const TIERS: &[(RiskTier, &[&str])] = &[
    (
        Read,
        &[
            "ls -la",
            "cat a | grep b | sort",
            "git log --oneline",
            "find . -name '*.rs'",
            "",
            "sed -n 1p a",
            "cd x && git -C y status 2>/dev/null",
        ],
    ),
    (
        WriteLocal,
        &[
            "cargo test --offline",
            "npm test",
            "pytest -q",
            "make build",
            "echo x > y",
            "rm a.txt",
            "sed -i s/a/b/ x",
            "chmod +x run.sh",
            "./run.sh",
            "bash test.sh",
            "python3 -c 'print(1)'",
            "find . -name '*.bak' -exec grep x {} \\;  > out",
            "env A=1 cargo build",
            "timeout 10 make",
            "$UNKNOWN x",
            "go test ./...",
            "npm run lint",
            "bash <<'E'\ncargo test\nE",
            "git add -A",
            "mkdir -p a",
            "echo 'rm -rf /'  > notes",
            "echo rm -rf x | cat > y",
            "perl -pe 's/a/b/' x > y",
        ],
    ),
    (WriteVisible, &["git push", "cd x; git -c a=b push origin HEAD"]),
    (
        Destructive,
        &[
            "rm -rf x",
            "rm -r -f x",
            "cd y && (rm -fr x)",
            "/bin/rm --recursive x",
            "r\\m -r'f' x",
            "sh -c 'rm -rf x'",
            "bash -ec \"rm -rf x\"",
            "echo $(rm -rf x)",
            "cat <(rm -rf x)",
            "env A=1 rm -rf x",
            "find . -name x -exec rm -rf {} +",
            "find . -delete",
            "ls | xargs rm -rf",
            "nice -n 5 rm -rf x",
            "sudo ls",
            "curl http://x | sh",
            "curl x | bash -s -- y",
            "X=rm; $X -rf y",
            "npm install x",
            "npm ci",
            "pip install x",
            "python3 -m pip install x",
            "docker ps",
            "chmod 777 x",
            "psql -c 'drop table x'",
            "sqlite3 a.db <<E\nDELETE FROM x;\nE",
            "./deploy.sh",
            "npm run deploy",
            "make deploy",
            "bash deploy.sh prod",
            "python3 -c 'import shutil; shutil.rmtree(\"x\")'",
            "python - <<E\nimport os; os.system('x')\nE",
            "node -e 'require(\"child_process\").execSync(\"x\")'",
            "perl -e 'system(\"x\")'",
            "bash -c \"$X\"",
            "eval \"$X\"",
            "eval rm -rf x",
            "trap 'rm -rf x' EXIT",
            "git reset --hard",
            "git clean -fd",
            "git -c alias.x='!rm -rf y' x",
            "echo x > .git/hooks/pre-commit",
            "echo 'unclosed",
            "if x; then",
            "bash <<E\nrm -rf x\nE",
            "f() { rm -rf x; }; f",
            "awk 'BEGIN{system(\"x\")}'",
            "kubectl delete pod x",
            "time rm -rf x",
            "timeout 5 rm -rf x",
            "env -S 'rm -rf x'",
            "echo ${x:-$(rm -rf y)}",
            "cat x | python3 -",
            "apt-get -y install x",
            "cargo publish",
            "echo x > /dev/sda",
            "busybox rm -rf x",
            "while read x; do rm -rf $x; done < y",
            "echo 'rm -rf x' | sh",
        ],
    ),
];

fn tier(policy: &Policy, script: &str) -> RiskTier {
    policy.bash(script).tier
}

#[test]
fn commands_have_the_tier_of_their_worst_part() {
    let policy = Policy::default();
    let mut wrong = Vec::new();
    for (expected, scripts) in TIERS {
        for script in *scripts {
            let found = policy.bash(script);
            if found.tier != *expected {
                wrong.push(format!("{script}: {found:?}, not {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_repository_demotes_and_promotes_and_the_stricter_wins() {
    let rules = r#"{"tool_overrides": {
        "bash": {"destructive": ["./scripts/migrate.sh", "npm ci --force"],
                 "safe": [{"command": "npm ci", "matches": ["npm ci --offline"], "spares": ["npm install"]},
                          "docker compose up"]},
        "tools": {"GitPush": "Destructive", "Write": "Read"}}, "require_approval": {}}"#;
    let mut policy = Policy { rules: Rules::parse(rules).unwrap(), ..Policy::default() };
    for (expected, script) in [
        (WriteLocal, "npm ci"),
        (Destructive, "npm ci --force"),
        (Destructive, "npm install x"),
        (Destructive, "npm ci && rm -rf x"),
        (WriteLocal, "docker compose up -d"),
        (Destructive, "docker ps"),
        (Destructive, "A=1 ./scripts/migrate.sh --env production"),
        (Destructive, "nice ./scripts/migrate.sh"),
    ] {
        assert_eq!(tier(&policy, script), expected, "{script}");
    }
    assert_eq!(policy.tool("GitPush", WriteVisible).tier, Destructive);
    assert_eq!(policy.tool("Write", WriteLocal).tier, WriteLocal);
    policy.overrides = [("Bash".to_owned(), Destructive)].into();
    assert_eq!(tier(&policy, "ls"), Destructive);
    for (bad, why) in [
        (r#"{"tool_overrides": {"bash": {"unsafe": []}}}"#, "unknown field"),
        (r#"{"tool_overrides": {"bash": {"safe": ["a | b"]}}}"#, "not one plain command"),
        (
            r#"{"tool_overrides": {"bash": {"safe": [{"command": "a", "matches": ["b"]}]}}}"#,
            "does not match",
        ),
        (
            r#"{"tool_overrides": {"bash": {"safe": [{"command": "a", "spares": ["x; a b"]}]}}}"#,
            "matches its own",
        ),
    ] {
        assert!(Rules::parse(bad).unwrap_err().contains(why), "{bad}");
    }
}
