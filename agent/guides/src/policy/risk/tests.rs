//! Commands by tier, and what a repository may say of them.

use codebutler_wire::RiskTier::{self, Destructive, Read, WriteLocal, WriteVisible};

use crate::policy::CommandPolicy;
use crate::policy::rules::RiskRules;

/// Tier, whether a snapshot comes first, and commands.
const TIERS: &[(RiskTier, bool, &[&str])] = &[
    (
        Read,
        false,
        &[
            "ls -la",
            "cat a | grep b | sort",
            "git log --oneline",
            "find . -name '*.rs'",
            "",
            "sed -n 1p a",
            "cd x && git -C y status 2>/dev/null",
            "command -v npm",
        ],
    ),
    (
        WriteLocal,
        false,
        &[
            "cargo test --offline",
            "cargo build --bin deploy",
            "cargo run --bin shop -- deploy",
            "d() { echo \"$1\"; }; d npm publish",
            "npm test",
            "pytest -q",
            "make build",
            "sed -i s/a/b/ x",
            "sed -i 's/old/d;q/g; s|/a/d|b|' x",
            "sed -i -e '3a\\' -e 'added' x",
            "perl -pi -e 's/a/b/' x",
            "sqlite3 a.db .tables",
            "sqlite3 a.db 'select * from dropped'",
            "pytest tests/test_reset.py",
            "bin/rails db:migrate",
            "chmod 777 x",
            "./run.sh",
            "bash test.sh",
            "python3 -c 'print(1)'",
            "env A=1 cargo build",
            "timeout 10 make",
            "bash <<'E'\ncargo test\nE",
            "echo x >> y",
            "echo x > /tmp/y",
            "git add -A",
            "mkdir -p a",
            "docker ps",
            "psql -c 'drop table x'",
        ],
    ),
    (
        WriteLocal,
        true,
        &[
            "echo x > y",
            "find . -name '*.bak' -exec grep x {} \\;  > out",
            "echo 'rm -rf /'  > notes",
            "echo rm -rf x | cat > y",
            "perl -pe 's/a/b/' x > y",
            "rm a.txt",
            "rm -rf x",
            "cd y && (rm -fr x)",
            "/bin/rm --recursive x",
            "r\\m -r'f' x",
            "sh -c 'rm -rf x'",
            "echo $(rm -rf x)",
            "cat <(rm -rf x)",
            "env A=1 rm -rf x",
            "find . -name x -exec rm -rf {} +",
            "find x -delete",
            "ls | xargs rm -rf",
            "X=rm; $X -rf y",
            "$UNKNOWN x",
            "python3 -c 'import shutil; shutil.rmtree(\"x\")'",
            "bash -c \"$X\"",
            "eval \"$X\"",
            "trap 'rm -rf x' EXIT",
            "git reset --hard",
            "git clean -fd",
            "git checkout main -- src",
            "git stash drop",
            "git branch -D x",
            "echo 'unclosed",
            "if x; then",
            "bash <<E\nrm -rf x\nE",
            "f() { rm -rf x; }; f",
            "busybox rm -rf x",
            "while read x; do rm -rf $x; done < y",
            "echo 'rm -rf x' | sh",
            "mv x /dev/null",
            "truncate -s 0 x",
            "> x",
            "make clean",
            "sudo rm x",
            "sed -i '1,$d' x",
            "sed -i '/^#/ d' x",
            "sed -ni 's/a/b/' x",
            "sed -i.bak -e 's/x/y/' -e '10q' x",
            "sed --in-place 's/.*//' x",
            "sed -E -i '/a/,/b/{d}' x",
            "perl -i -ne 'print if /x/' y",
            "gawk -i inplace '{print $1}' x",
            "ex -s x <<'E'\n%d\nx\nE",
            "npx prisma migrate reset --force",
            "prisma db push --force-reset",
            "bin/rails db:drop",
            "rails db:reset",
            "php artisan migrate:fresh",
            "npm run db:reset",
            "sequelize db:drop",
            "sqlite3 a.db 'DELETE FROM x'",
            "sqlite3 a.db 'drop table x'",
            "sqlite3 a.db < x.sql",
            "duckdb a.db -c 'truncate x'",
        ],
    ),
    (
        WriteVisible,
        false,
        &["git push", "cd x; git -c a=b push origin HEAD", "npm ci", "pip install x"],
    ),
    (WriteVisible, true, &["rm -rf node_modules && npm ci", "git push; rm x"]),
    (
        Destructive,
        false,
        &[
            "npm publish",
            "git push --force",
            "make deploy",
            "rm -rf .git",
            "cargo run --bin deploy",
            "cargo run --example=publish -- x",
        ],
    ),
    (
        Destructive,
        true,
        &["d() { \"$@\"; }; d npm publish", "d() { eval \"$1\"; }; d 'npm publish'"],
    ),
    (Destructive, false, &["cd .. && rm -rf tree", "cd /work; rm -rf *", "rm -rf ../tree"]),
    (Destructive, true, &["rm -rf src; npm publish", "npm publish || git reset --hard"]),
];

fn tier(policy: &CommandPolicy, script: &str) -> RiskTier {
    policy.bash(script).tier
}

#[test]
fn commands_have_the_tier_of_their_worst_part() {
    let policy = CommandPolicy::default();
    let mut wrong = Vec::new();
    for (expected, loses, scripts) in TIERS {
        for script in *scripts {
            let found = policy.bash(script);
            if found.tier != *expected || (found.loses || found.overwrites) != *loses {
                wrong.push(format!("{script}: {found:?}, not {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_repository_demotes_and_promotes_and_the_stricter_wins() {
    let rules = r#"{"tool_overrides": {
        "bash": {"destructive": ["./scripts/migrate.sh", "npm ci --force", "rm -rf"],
                 "safe": [{"command": "npm ci", "matches": ["npm ci --offline"], "spares": ["npm install"]},
                          "docker push local", "npm publish"]},
        "tools": {"GitPush": "Destructive", "Write": "Read"}}, "require_approval": {}}"#;
    let mut policy =
        CommandPolicy { rules: RiskRules::parse(rules).unwrap(), ..CommandPolicy::default() };
    for (expected, script) in [
        (WriteLocal, "npm ci"),
        (Destructive, "npm ci --force"),
        (WriteVisible, "npm install x"),
        (Destructive, "npm ci && rm -rf x"),
        (WriteLocal, "rm x"),
        (Destructive, "find . -name x -exec rm -rf {} +"),
        (WriteLocal, "npm publish --tag next"),
        (WriteLocal, "docker push local"),
        (Destructive, "docker push x"),
        (Destructive, "A=1 ./scripts/migrate.sh --env production"),
        (Destructive, "nice ./scripts/migrate.sh"),
        (Destructive, "./scripts/migrate.sh 'unclosed"),
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
        assert!(RiskRules::parse(bad).unwrap_err().to_string().contains(why), "{bad}");
    }
}

#[test]
fn nothing_is_too_deep_or_too_odd_to_be_judged() {
    let policy = CommandPolicy::default();
    for script in [
        "eval ".repeat(4000) + "ls",
        "nice ".repeat(4000) + "ls",
        "sudo ".repeat(4000) + "npm publish",
        "$(".repeat(200) + "ls" + &")".repeat(200),
        "for a in 1 2 3 4 5 6 7 8 9; do ".repeat(8) + "ls" + &"; done".repeat(8),
        "(".repeat(20_000),
        "if a; then ".repeat(5000),
        "{ ".repeat(5000),
        "! ".repeat(5000) + "ls",
        "npx ".repeat(3000) + "ls",
        "find . -exec ".repeat(2000),
        "flock x ".repeat(2000),
        "\u{0}npm publish".to_owned(),
        "cat > a <<'E'\nbash a\nE\nbash a".to_owned(),
        "find . -exec ".repeat(500),
        "git".to_owned() + &" -c a=!git".repeat(300) + " push",
    ] {
        let found = policy.bash(&script);
        assert!(!found.why.is_empty());
    }
    assert!(policy.bash(&("nice ".repeat(4000) + "npm publish")).asks());
}
