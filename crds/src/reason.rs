//! Every reason of a condition or an event: where it stands, what it means, and what a person does about
//! it. The page of reasons is written from this, and nothing may be said that is not here.

/// One reason. Its sentence on the object names the field, the Secret or the command that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusReason {
    /// The reason as a condition or an Event has it.
    pub name: &'static str,
    /// Kind of the object that carries the reason.
    pub kind: &'static str,
    /// Condition types that have it, or `event`.
    pub at: &'static str,
    /// Meaning of the reason, for people.
    pub means: &'static str,
    /// Remedy; empty where there is nothing to be done.
    pub todo: &'static str,
}

macro_rules! reasons {
    ($($kind:ident { $($name:ident at $at:literal: $means:literal, $todo:literal;)* })*) => {
        /// Every reason, by kind and name.
        pub static ALL: &[StatusReason] = &[$($(StatusReason {
            name: stringify!($name),
            kind: stringify!($kind),
            at: $at,
            means: $means,
            todo: $todo,
        }),*),*];
    };
}

reasons! {
    Repo {
        AppRemoved at "SlackReachable, event": "The Slack app is not installed in the workspace any more.", "Install it again and put its new tokens into the Secret.";
        BadPattern at "Ready, Stalled, event": "A pattern of `spec.policy.redaction` can't be used.", "Correct the pattern that is named.";
        ChannelArchived at "SlackReachable, event": "The channel is archived.", "Unarchive it, or name another one.";
        ChannelNotFound at "SlackReachable, event": "The app sees no such channel.", "Check the id or name, and invite the app if the channel is private.";
        Checking at "Ready, Reconciling": "The gateway has not yet asked everything for the Repo as it is now.", "Wait. If it lasts, look at the gateway.";
        CommentsNotRead at "event": "Comments with the word of `spec.comments` can't be read.", "Let the token read issues and pull requests, or see what GitHub says; it is tried again.";
        EgressNotEnforced at "Ready, Reconciling, event": "Agent pods could connect past the gateway, so that none works.", "Use a network plugin that enforces NetworkPolicies, or set `spec.egress.requireEnforcement: false`.";
        EitherDay at "SchedulesValid, event": "A schedule names days of the month and days of the week: either is enough, so it begins more often than one that needs both.", "Name the days of one field alone, if both were meant to fit.";
        Enforced at "EgressEnforced": "Agent pods reach the gateway and nothing else.", "";
        GatewayAway at "Ready, Reconciling, GatewayServing, event": "No gateway serves agents.", "See the pods of Deployment `codebutler-gateway`.";
        GatewayCertificateNotFound at "Ready, Reconciling, event": "The gateway has not written its certificate authority yet.", "See that a gateway runs, and its log.";
        GatewayNotFound at "Ready, Reconciling, event": "The gateway's Service is not there or not as it has to be.", "Install the chart again (`helm upgrade`).";
        GitNotReachable at "Ready, Reconciling, event": "Git does not take the credentials, or does not answer.", "Correct `spec.git` or the Secret that is named.";
        GuidesInvalid at "GuidesValid, event": "Files of `.codebutler/` on the base branch have mistakes; what can't be read is left out, and work goes on.", "Fix the files and lines that the sentence names; `codebutler-agent validate` shows all.";
        GuidesUsable at "GuidesValid": "Each file of `.codebutler/` on the base branch can be used as it stands.", "";
        InvalidCredentials at "SlackReachable, event": "Slack does not take a token of the Secret, or the Secret can't be used.", "Put valid tokens into the Secret; no restart is needed.";
        IssuesNotRead at "event": "Issues with the label of `spec.issues` can't be read.", "Let the token read issues, or see what GitHub says; it is tried again.";
        KeyRefused at "ModelReachable, SearchReachable": "The model API, or the search service, does not take the key.", "Put a valid one into the Secret.";
        Known at "ModelsKnown": "The provider has the models of all roles.", "";
        McpServerNotReady at "McpServersReady, event": "A server of `spec.mcpServers` can't be used; roles go on without its tools.", "Correct the field, the Secret or the server that the sentence names.";
        McpServerStarted at "event": "A server of `spec.mcpServers` has got a pod.", "";
        McpServersNotStarted at "McpServersReady": "A server of `spec.mcpServers` with an `image` was never started, or is starting: it starts when a role first uses it, and only then shows that it works. All others answer.", "";
        McpServersReady at "McpServersReady, event": "Each server of `spec.mcpServers` answered when it was last asked or used.", "";
        McpSignInNeeded at "McpServersReady, event": "A server of `spec.mcpServers` with `oauth` asks for a person to sign in.", "Write in a thread whose role uses it and sign in with the link that comes, or change what the sentence names.";
        MissingScope at "SlackReachable, event": "The Slack app lacks scopes.", "Add those that are named and install the app again.";
        ModelNotReachable at "Ready, Reconciling, event": "The model API does not serve the Repo.", "Correct `spec.model` or the Secret that is named.";
        ModelReachable at "event": "The model API serves the Repo again.", "";
        ModelRefused at "ModelReachable": "The provider refuses one model, in the words that follow.", "Correct the model's id or options in the AgentRole.";
        ModelsNotKnown at "event": "A role's model is not in the provider's list.", "Correct the id, or say in `spec.model.models` what it is.";
        NameTaken at "Ready, Stalled, event": "An object that belongs to somebody else has the name that one of the Repo's needs.", "Delete or rename that object.";
        NoList at "ModelsKnown": "The provider's list of models can't be used.", "Nothing: ids are taken as they are written down.";
        NotAccepted at "Ready, Reconciling, event": "The API server, or a webhook that it asks, fails.", "Fix the webhook that is named; it is tried again until it is.";
        NotAsked at "ModelReachable, SearchReachable": "Only a call, or a search, can tell whether the key is served.", "";
        NotEnforced at "EgressEnforced": "Agent pods got past the gateway by the ways that are named.", "Use a network plugin that enforces NetworkPolicies, and delete policies that let these pods out. Where only the node is named, `spec.egress.allowOwnNode: true` accepts that.";
        NotInChannel at "SlackReachable, event": "The app is not in the channel.", "Invite it there.";
        NotKnown at "ModelsKnown": "A role's model is not in the provider's list.", "Correct the id, or say in `spec.model.models` what it is.";
        NotReachable at "GitReachable, ModelReachable, SearchReachable": "It does not answer, or not as it has to.", "See the sentence: it names the field or the Secret.";
        QuotaExceeded at "Ready, Reconciling": "The namespace's ResourceQuota is full.", "Wait, or raise it.";
        QuotaTooSmall at "Ready, Reconciling, event": "The ResourceQuota has no room for even one.", "Raise it.";
        Reachable at "SlackReachable, GitReachable": "It answers with the Repo's credentials.", "";
        Ready at "Ready": "Messages in the channel are answered.", "";
        Refused at "ModelReachable, SearchReachable": "The provider refuses the account (no money, no right), in the words that follow; or a search service has to be set up otherwise.", "Fix the account, or put another key into the Secret.";
        Rejected at "Ready, Reconciling, event": "The API server refuses an object that the Repo needs.", "See its words; a missing right comes back with `helm upgrade`.";
        Renamed at "OldSpelling, event": "A field is written as the first previews had it, which is read until `v1beta1`.", "Write it as the sentence has it.";
        Repaired at "event": "Somebody had changed an account, a policy or a certificate of the Repo; it is as it has to be again.", "";
        RoleNotFound at "Ready, Stalled, event": "`spec.roles` names an AgentRole that does not exist.", "Create it, or take it out.";
        PreparedVolumeFailed at "PreparedVolumeReady, event": "The volume of `spec.worktree.prepared` can't be prepared; Threads do their own set-up. It is tried again.", "See the log or the words that the sentence names.";
        PreparedVolumeNoSnapshots at "PreparedVolumeReady, event": "`spec.worktree.prepared` is Snapshot, and the cluster serves no VolumeSnapshots. Threads do their own set-up.", "Install the definitions and the controller of CSI snapshots, or choose Clone or None.";
        PreparedVolumeNotCloned at "PreparedVolumeReady, event": "Several volumes in a row were not cloned from the prepared one, or restored from its snapshot, within `spec.worktree.cloneSeconds`. Threads get empty volumes, and do their own set-up, until it is replaced or the Repo's spec is changed.", "Name a StorageClass whose driver can do that (`spec.worktree.storageClassName`), give a slow one more time (`spec.worktree.cloneSeconds`), or choose another way in `spec.worktree.prepared`.";
        PreparedVolumeReady at "PreparedVolumeReady": "The volumes of new Threads are clones of a prepared one, or restored from its snapshot.", "";
        PreparedVolumeStarting at "PreparedVolumeReady": "A volume is being prepared; Threads do their own set-up meanwhile.", "";
        RoleTwice at "Ready, Stalled, event": "Two AgentRoles of `spec.roles` are the same role.", "Take one out.";
        ScheduleInvalid at "SchedulesValid, event": "A schedule can't be read, or names no time that ever comes, so that it begins nothing.", "Correct `cron` or `timeZone` of the schedule that is named.";
        ScheduleMissed at "event": "Runs of a schedule did not begin within its `startingDeadlineSeconds`, a newer one began instead, or the conversation of an earlier one was open: no gateway served, or the events before say what refused them.", "Start what is still wanted by hand; the next run says it, too.";
        SearchNotReachable at "event": "The search service of `spec.web.search` can't be used; roles are told so.", "Correct the field or the Secret that the sentence names.";
        SeatFailed at "SeatsReady, event": "A seat of `spec.warm` failed or does not start; Threads start pods of their own.", "See the pod that the sentence names.";
        SeatRoleUnknown at "SeatsReady, event": "`spec.warm.roles` names a role that no AgentRole of `spec.roles` is: it has no seats.", "Correct the name, or add the AgentRole.";
        SeatScheduleInvalid at "SeatsReady, event": "`spec.warm.schedule` can't be read, or names no time that ever comes: no seats wait.", "Correct it.";
        SeatsAsleep at "SeatsReady": "No seats are wanted now: nobody has written for `idleSeconds`, or the Repo is suspended.", "";
        SeatsReady at "SeatsReady": "As many seats wait as there are to be.", "";
        SeatsRefused at "SeatsReady, event": "The API server refuses a seat, such as for a full quota; Threads start pods of their own.", "See its words, or lower `spec.warm.seats`.";
        SeatsStarting at "SeatsReady": "Seats are being made.", "";
        SeatsYield at "SeatsReady, event": "Work waits for room on a node or in a quota: seats are given up for it.", "Nothing; add room if it keeps happening.";
        Served at "ModelReachable, SearchReachable": "The model API, or the search service, serves the key.", "";
        Serving at "GatewayServing": "A gateway serves agents.", "";
        SetUpDone at "SeatsSetUp": "Seats are set up before a Thread takes them.", "";
        SetUpFailed at "SeatsSetUp, event": "A seat could not be set up. It waits with its clone, and the Thread that takes it tries again and tells people.", "See the log that the sentence names; correct `spec.worktree.setup`, the image, or `spec.egress`.";
        SharedApp at "SlackReachable, event": "Another installation uses the same Slack app, so that each hears only some messages.", "Give each installation an app of its own.";
        SigningSecretInvalid at "event": "Deliveries can't be checked and are answered with 503: the Secret of `spec.deliveries` is missing, can't be read, or has no usable `signingSecret`.", "See the sentence, and correct the Secret; the next delivery is checked with it.";
        SlackNotReachable at "Ready, Reconciling, event": "Slack can't be worked with.", "See the condition SlackReachable.";
        SlackRefused at "SlackReachable, event": "Slack refuses a call, with the code that is named.", "Look the code up in Slack's documentation of the method.";
        SlackUnavailable at "SlackReachable, event": "Slack does not answer.", "Wait; if it lasts for all Repos, see the gateway's way out.";
        SparseFolderNotFound at "SparseCheckoutValid, event": "The base branch does not have a folder of `spec.worktree.sparse`; worktrees have the others.", "Correct the path that the sentence names, or take it out.";
        SparseFoldersFound at "SparseCheckoutValid": "The base branch has each folder of `spec.worktree.sparse`.", "";
        StartRefused at "event": "Work that begins by itself could not, for the reason that is named.", "Fix what is named; it is tried again until it is.";
        Suspended at "Suspended, Ready, event": "`spec.suspend` is set: nothing new starts.", "Unset it.";
    }
    AgentRole {
        PromptNotFound at "Ready, Stalled, event": "The ConfigMap of `spec.promptFrom`, or its key, is not there.", "Create it, with the label `codebutler.dev/prompt`.";
        PromptTooLong at "Ready, Stalled, event": "The text of `spec.promptFrom` is too long.", "Shorten it.";
        Renamed at "OldSpelling, event": "A field is written as the first previews had it, which is read until `v1beta1`.", "Write it as the sentence has it.";
        ToolsChangeWorktree at "Parallel, event": "`spec.parallelism` has no effect: tools of the role change the worktree.", "Take those tools out, or set it to 1.";
        UnknownTool at "Ready, Stalled, event": "`spec.tools.allow` names a tool that does not exist.", "Correct the name; the sentence lists all.";
        Valid at "Ready": "Repos can name it.", "";
        WorktreeReadOnly at "Ready, Stalled, event": "`worktree: ReadOnly` does not go with what else the role says.", "Take out the tools that are named, or set `ReadWrite`.";
    }
    Thread {
        Absent at "WorktreeReady": "There is no volume: not yet, or not any more.", "";
        ActionAsked at "AwaitingUser": "A role asks whether it may do something.", "Answer in the conversation.";
        Admitted at "event": "It was this Thread's turn.", "";
        AgentHangs at "Ready, Stalled, event": "Agents of a role said nothing any more, several times in a row.", "See `kubectl logs POD -c agent` and the node; delete the pod, or write a message.";
        AgentHung at "Ready, Reconciling, event": "An agent that had something to do said nothing for ten minutes (`agents.silenceSeconds`); its pod is replaced.", "Nothing: the role goes on from its transcript.";
        Asked at "Ready, AwaitingUser": "People were asked something in the conversation.", "Answer there.";
        Asleep at "Ready": "Nothing to do, and no pod.", "";
        Awake at "Ready": "Roles are awake.", "";
        Bound at "WorktreeReady": "The worktree's volume exists.", "";
        BudgetNear at "event": "A budget is nearly used up (`spec.limits.budget.warnAt`).", "Raise it, or wait until it is renewed.";
        BudgetReached at "event": "A limit of the Repo is reached, and the thread says so.", "Answer in the thread, or raise `spec.limits`.";
        ChoiceAsked at "AwaitingUser": "A role asks for one of several answers.", "Choose one in the conversation.";
        Closed at "Ready, Finished, event": "Somebody closed it; pods and volume are removed.", "";
        Closing at "Ready, Reconciling": "Pods and volume are being removed.", "";
        Collected at "Finished, event": "Nobody had written for three days.", "A message in the conversation begins it anew.";
        Collecting at "event": "Nobody has written for two days: it is collected in a day.", "Write anything in the conversation to keep it.";
        ContainerCrashes at "Ready, Reconciling, event": "A container of a pod keeps ending.", "See `kubectl logs`, as the sentence has it.";
        ContainerNotCreated at "Ready, Reconciling, event": "A container can't be created.", "See the kubelet's words; usually a Secret, ConfigMap or volume of `spec.pods` is missing.";
        Due at "Collecting": "Worktree and branch are being removed, since nobody has written for three days.", "";
        Ending at "WorktreeReady": "The volume is being removed.", "";
        Evicted at "event": "The cluster took a pod away.", "Nothing; if it keeps happening, raise the role's requests or priority.";
        Failed at "Finished": "It was closed when it could not go on.", "See the sentence.";
        GatewayAway at "Ready, Reconciling, event": "No gateway answers.", "See the pods of Deployment `codebutler-gateway`; what was begun goes on by itself.";
        GatewayNotFound at "Ready, Reconciling, event": "The gateway's Service is not there or not as it has to be.", "Install the chart again (`helm upgrade`).";
        GatewayRefuses at "Ready, Reconciling, event": "The gateway does not let a role work.", "See the Repo's conditions and `kubectl logs POD -c agent`.";
        Gathering at "Ready, Reconciling": "A burst of messages is waited for (`spec.slack.debounceSeconds`).", "";
        ImageNotPulled at "Ready, Reconciling, event": "An image can't be pulled.", "Correct the image, or let nodes pull it (`images.pullSecrets`).";
        LearningsAsked at "AwaitingUser": "A role asks which learnings are kept.", "Answer in the conversation.";
        LimitReached at "BudgetExceeded": "A limit of the Repo is reached.", "Answer in the thread, or raise `spec.limits`.";
        Lost at "WorktreeReady": "The volume behind the claim is gone.", "Nothing: it is made again.";
        McpServerStarted at "event": "A server of `spec.mcpServers` has got a pod.", "";
        MergeAsked at "AwaitingUser": "The work is ready: people are asked how the thread ends.", "Answer in the conversation.";
        Merged at "Finished": "Its pull request was merged.", "";
        NameTaken at "Ready, Stalled, event": "An object that belongs to somebody else has the name that a pod or volume needs.", "Delete or rename that object.";
        NoFreeSlot at "Queued": "All places of the Repo are taken.", "Wait, or raise `spec.limits.concurrentThreads` or `concurrentRuns`.";
        NotAccepted at "Ready, Reconciling, event": "The API server, or a webhook that it asks, fails when a pod or volume is made.", "Fix the webhook that is named; it is tried again until it is.";
        NotExpanded at "WorktreeReady, event": "The volume could not be made larger.", "Use a StorageClass that allows it.";
        NotOpened at "Ready, Reconciling, event": "The conversation of a prompt could not be opened.", "See the condition Opened.";
        NothingAsked at "AwaitingUser": "No role waits for a person.", "";
        Opened at "Opened": "The conversation of the prompt is there.", "";
        Opening at "Ready, Reconciling": "The gateway opens a conversation in Slack.", "";
        OutOfDisk at "Ready, Reconciling": "The pod wrote more outside of the worktree than it may.", "Have commands put large files into the worktree.";
        OutOfMemory at "Ready, Reconciling": "A container used more memory than its limit.", "Raise `workspace.resources` of the AgentRole.";
        ParentElsewhere at "Ready, Stalled, event": "`spec.parent` belongs to another Repo.", "Make the Thread anew with another parent.";
        ParentNotFound at "Ready, Stalled, event": "`spec.parent` does not exist.", "Create it, or delete this Thread.";
        ParentTooDeep at "Ready, Stalled, event": "Too many Threads are parts of each other.", "Make the Thread anew with another parent.";
        PartsAsked at "AwaitingUser": "People are asked whether the request is built in parts.", "Answer in the conversation.";
        Pending at "WorktreeReady": "The claim waits for a volume, which may need its first pod.", "";
        PlanApproved at "event": "Somebody approved exactly the plan with this hash.", "";
        PlanAsked at "AwaitingUser": "A plan waits for a yes.", "Approve or change it in the conversation.";
        PodEnding at "Ready, Reconciling": "An old pod is on its way out.", "";
        PodEvicted at "Ready, Reconciling": "The cluster took the pod away; another one follows.", "Nothing; if it keeps happening, raise the role's requests or priority.";
        PodFailed at "Ready, Reconciling, event": "A pod failed; the next attempt follows.", "";
        PodFailing at "Ready, Stalled, event": "Pods of a role failed five times in a row.", "See `kubectl logs`; delete the pod, or write a message.";
        PodHeldBack at "Ready, Reconciling": "Something of the cluster, such as a queue, has held a pod back for minutes.", "Nothing; if it takes long, see the queue.";
        PodNotEnding at "Ready, Reconciling, event": "A pod does not go: its node may be lost.", "If it is, `kubectl delete pod POD --force`.";
        PodNotStarted at "Ready, Reconciling, event": "A pod with a node has not started for two minutes.", "See `kubectl describe pod`.";
        PodReplaced at "event": "A role's pod was lost or ended before its work; another one was made.", "Nothing: the role goes on from its transcript.";
        PodStarted at "event": "A role's first pod was made.", "";
        PodStarting at "Ready, Reconciling": "A pod is on its way.", "";
        PodUnschedulable at "Ready, Reconciling, event": "No node takes a pod, and no autoscaler adds one.", "Add room or raise the autoscaler's limits, or change resources, node selector or tolerations.";
        PromptNotFound at "Ready, Reconciling, event": "The AgentRole lacks its `spec.promptFrom`.", "See the AgentRole's conditions.";
        PullRequestClosed at "event": "Its pull request was closed without a merge.", "";
        PullRequestMerged at "event": "Its pull request was merged.", "";
        PullRequestOpened at "event": "It has a pull request.", "";
        Queued at "Ready, Reconciling, event": "All places of the Repo are taken; it starts by itself.", "Wait, or raise `spec.limits`.";
        QuotaExceeded at "Ready, Reconciling": "The namespace's ResourceQuota is full.", "Wait, or raise it.";
        QuotaTooSmall at "Ready, Reconciling, event": "The ResourceQuota has no room for even one pod.", "Raise it.";
        Refused at "event": "Too much waits in the conversation for more to be taken in.", "Answer what is open.";
        Rejected at "Ready, Reconciling, event": "Admission refuses a pod or volume.", "See its words, with what to do.";
        Repaired at "event": "Labels that somebody had removed are back.", "";
        RepoNotFound at "Ready, Stalled, Opened, event": "`spec.repo` does not exist.", "Create the Repo, or delete this Thread.";
        RepoNotPrepared at "Ready, Reconciling": "The Repo is being prepared.", "See the Repo's conditions.";
        RepoNotReady at "Opened": "The Repo is not ready.", "See the Repo's conditions.";
        RepoSuspended at "Suspended, Ready, Opened": "The Repo is suspended.", "Unset its `spec.suspend`.";
        RoadmapAsked at "AwaitingUser": "People are asked whether the roadmap is developed.", "Answer in the conversation.";
        RoadmapDone at "Ready": "Each item of the roadmap that was approved is merged, and nothing is to be done.", "";
        RoleNotFound at "Ready, Stalled, Opened, event": "No AgentRole of the Repo is the role that has mail.", "Add one to the Repo's `spec.roles`.";
        Rolled at "event": "An idle pod is replaced, since its AgentRole or Repo has changed; any pod where the Repo has another shard of the gateways.", "";
        SandboxUnavailable at "Ready, Stalled, event": "The pod's node can't confine commands: its kernel has no Landlock of version 2.", "Give the role other nodes (`spec.pods.nodeSelector`), or a runtime class with `workspace.sandbox: Runtime`.";
        ChannelNotFound at "Opened": "The Repo's channel does not exist.", "See the Repo's conditions.";
        SeatTaken at "event": "A role began in a pod that waited for it (`spec.warm` of the Repo).", "";
        SignInAsked at "AwaitingUser": "A server of `spec.mcpServers` that a role needs wants somebody to sign in.", "Open the link that they were sent.";
        SlackNotReachable at "Opened": "Slack can't be worked with.", "See the Repo's condition SlackReachable.";
        SlackRefused at "Opened": "Slack refuses the first message, with the code that is named.", "Look the code up in Slack's documentation.";
        Suspended at "event": "A pod sleeps, since its role has nothing to do.", "";
        TakeBackAsked at "AwaitingUser": "A part was merged without the others: people are asked whether it is taken back.", "Answer in the conversation.";
        TrainAsked at "AwaitingUser": "People are asked whether the pull requests are merged one behind the other.", "Answer in the conversation.";
        VolumeCreated at "event": "The worktree's volume claim was made.", "";
        VolumeEnding at "Ready, Reconciling": "The old volume claim is on its way out.", "";
        VolumeExpanded at "event": "The volume grows to what the Repo asks for.", "";
        VolumeLost at "Ready, Reconciling, event": "The volume is gone, and what was not pushed with it; it is made again from the branch and the Slack thread.", "";
        VolumeNotEnding at "Ready, Reconciling, event": "The volume claim does not go.", "See `kubectl describe pvc` for who uses it.";
        VolumeNotWritable at "Ready, Stalled, event": "Pods may not write to the volume.", "Use a StorageClass that honours fsGroup.";
        VolumePending at "Ready, Reconciling, event": "The volume claim gets no volume.", "See `kubectl describe pvc` and `spec.worktree.storageClassName` of the Repo.";
        VolumeReplaced at "Ready, Reconciling, event": "A claim without a volume is made again as the Repo wants it now.", "";
        VolumeUnreachable at "Ready, Reconciling, event": "The volume can be used on nodes only that are gone or have no room.", "Bring the node back, or give the volume up with the command that is named. After ten minutes without the node it is made again by itself.";
        Warned at "Collecting": "Silent for two days; people were asked.", "Write anything in the conversation to keep it.";
        Woken at "event": "A role was woken.", "";
    }
}

/// The reasons of one kind of object, by name.
pub fn reasons_of(kind: &str) -> Vec<StatusReason> {
    let mut found: Vec<_> = ALL.iter().filter(|reason| reason.kind == kind).copied().collect();
    found.sort_by_key(|reason| reason.name);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_told_once_for_each_kind() {
        for kind in ["Repo", "AgentRole", "Thread"] {
            let mut names: Vec<_> =
                reasons_of(kind).into_iter().map(|reason| reason.name).collect();
            let all = names.len();
            names.dedup();
            assert_eq!(names.len(), all, "{kind}");
        }
    }
}
