//! Reasons are an API: whatever the product says as one stands in the catalog, from which their page is
//! written.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use codebutler_crds::reason;
use regex::Regex;

/// Words of the product's sources that look like reasons and are none.
const OTHERS: &[&str] = &[
    // Kinds, fields, values and words of Kubernetes.
    "AgentRole",
    "Always",
    "ConfigMap",
    "ContainerCannotRun",
    "ContainerCreating",
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "CreateContainerError",
    "DeadlineExceeded",
    "DeletionByTaintManager",
    "DisruptionTarget",
    "Edit",
    "Egress",
    "ErrImageNeverPull",
    "ErrImagePull",
    "Error",
    "Exists",
    "Factory",
    "FailedAttachVolume",
    "FailedScaleUp",
    "FailedScheduling",
    "False",
    "Gi",
    "ImageInspectError",
    "ImagePullBackOff",
    "In",
    "Ingress",
    "InvalidImageName",
    "InvalidNodeInfo",
    "Ki",
    "Landlock",
    "Mi",
    "NetworkNotReady",
    "NetworkPolicy",
    "Never",
    "NodeAffinity",
    "NodeLost",
    "NodeShutdown",
    "None",
    "Nominated",
    "NotTriggerScaleUp",
    "OnRootMismatch",
    "OutOf",
    "PersistentVolumeClaim",
    "Pod",
    "PodInitializing",
    "PodReadyToStartContainers",
    "PodScheduled",
    "Preempting",
    "ReadWriteMany",
    "ReadWriteOnce",
    "RegistryUnavailable",
    "Repo",
    "RunContainerError",
    "Running",
    "RuntimeDefault",
    "SchedulingGated",
    "Secret",
    "ServiceAccount",
    "Shutdown",
    "SignatureValidationFailed",
    "StartError",
    "Succeeded",
    "TaintToleration",
    "Terminated",
    "Thread",
    "Ti",
    "TriggeredScaleUp",
    "TopologyAffinityError",
    "True",
    "UnexpectedAdmissionError",
    "Unknown",
    "Unschedulable",
    "VolumeAttachmentLimitExceeded",
    "Warning",
    // Verbs of events.
    "Begin",
    // Buttons, tools, kinds of approvals, and names for people.
    "Accept",
    "Approve",
    "AskRoles",
    "Bash",
    "Bot",
    "Cancel",
    "Change",
    "Close",
    "CloseThread",
    "CodeButler",
    "Controller",
    "Decline",
    "Deny",
    "DialOptions",
    "Gateway",
    "Git",
    "GitPush",
    "GitUpdate",
    "GrantBook",
    "Hold",
    "EditImage",
    "GenerateImage",
    "Keep",
    "KeepImage",
    "Screenshot",
    "ListThreads",
    "Make",
    "Merge",
    "Message",
    "Modify",
    "No",
    "PlanReview",
    "ProposeLearnings",
    "ProposeMaps",
    "ProposeItems",
    "PullRequest",
    "Push",
    "Start",
    "Read",
    "ReadResource",
    "Reject",
    "Send",
    "SaveAttachment",
    "SendMessage",
    "SplitRequest",
    "Slack",
    "Somebody",
    "Stop",
    "UsePrompt",
    "VolumeSnapshot",
    "WebFetch",
    "WebSearch",
    "Yes",
    // The head of a recording.
    "OpusHead",
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let skipped = ["tests.rs", "testing.rs", "fuzz.rs"];
        if path.is_dir() && name != "tests" && name != "snapshots" {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs")
            && !skipped.contains(&name.as_str())
        {
            found.push(path);
        }
    }
}

/// Words in the operator's sources that are written like a reason, except in their tests.
fn words() -> BTreeSet<String> {
    let mut files = Vec::new();
    for crate_folder in ["runtime", "controller", "gateway"] {
        let folder = format!("../operator/{crate_folder}");
        sources(&Path::new(codebutler_testbed::FOLDER).join(folder), &mut files);
    }
    let word = Regex::new(r#""([A-Z][a-z]+(?:[A-Z][a-z]+)*)""#).unwrap();
    let mut found = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        found.extend(word.captures_iter(text).map(|found| found[1].to_owned()));
    }
    found
}

#[test]
fn every_reason_is_in_the_catalog_and_the_catalog_has_no_other() {
    let words = words();
    let others: BTreeSet<String> = OTHERS.iter().map(|word| (*word).to_owned()).collect();
    let known: BTreeSet<String> = reason::ALL.iter().map(|reason| reason.name.to_owned()).collect();
    let missing: Vec<_> =
        words.iter().filter(|w| !known.contains(*w) && !others.contains(*w)).collect();
    assert!(missing.is_empty(), "in no catalog (crds/src/reason.rs), or no reason: {missing:?}");
    let unused: Vec<_> = known.iter().filter(|name| !words.contains(*name)).collect();
    assert!(unused.is_empty(), "nobody says: {unused:?}");
}

#[test]
fn what_people_are_told_in_slack_is_a_reason_of_threads() {
    let told = std::fs::read_to_string(
        Path::new(codebutler_testbed::FOLDER).join("../operator/gateway/src/condition_notices.rs"),
    );
    let told = told.unwrap();
    let lists = told
        .split("const ")
        .filter(|part| part.starts_with("TROUBLES") || part.starts_with("PAUSES"));
    let word = Regex::new(r#""([A-Za-z]+)""#).unwrap();
    let of_threads: Vec<_> =
        reason::reasons_of("Thread").into_iter().map(|reason| reason.name).collect();
    for list in lists {
        let list = list.split("];").next().unwrap();
        for found in word.captures_iter(list) {
            assert!(of_threads.contains(&&found[1]), "{}", &found[1]);
        }
    }
}
