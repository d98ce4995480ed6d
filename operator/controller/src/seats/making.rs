//! Describes the pods and volumes of new seats.

use std::collections::BTreeSet;

use codebutler_crds::role::WorktreeAccess;
use codebutler_crds::{AgentRole, Repo};
use kube::ResourceExt as _;

use crate::args::ControllerArgs;
use crate::gateway::GatewayAddress;
use crate::node_room::taken_by;
use crate::thread::pod::{PodInput, PodOwner};
use crate::thread::security;

/// True for a role whose commands run in the worktree itself: a set-up is for those.
pub(super) fn works_in_worktree(role: &AgentRole) -> bool {
    role.spec.tools.offered().any(|tool| tool == "Bash")
        && *role.spec.workspace.worktree == WorktreeAccess::ReadWrite
}

/// The parts that the seats of a role have in common.
pub(super) struct SeatMaker<'a> {
    pub repo: &'a Repo,
    pub role: &'a AgentRole,
    pub gateway: &'a GatewayAddress,
    pub args: &'a ControllerArgs,
}

impl<'a> SeatMaker<'a> {
    /// None as long as the gateway is not found.
    pub(super) fn new(
        repo: &'a Repo,
        role: &'a AgentRole,
        gateway: Option<&'a GatewayAddress>,
        args: &'a ControllerArgs,
    ) -> Option<Self> {
        gateway.map(|gateway| Self { repo, role, gateway, args })
    }

    pub(super) fn input<'b>(&'b self, seat: &'b str) -> PodInput<'b>
    where
        'a: 'b,
    {
        let Self { repo, role, gateway, args } = *self;
        PodInput { owner: PodOwner::Seat(seat), repo, role, gateway, args, user: security::USER }
    }

    /// The same for the pod of a prepared volume.
    pub(super) fn prepared<'b>(&'b self, claim: &'b str) -> PodInput<'b>
    where
        'a: 'b,
    {
        PodInput { owner: PodOwner::Prepared(claim), ..self.input(claim) }
    }

    /// Everything that seats are made from: where it is another, they may fare otherwise.
    pub(super) fn describe(&self) -> String {
        let (repo, config) = (self.repo, self.input("").config());
        let uid = repo.uid().unwrap_or_default();
        format!("{uid}/{}/{config}", repo.metadata.generation.unwrap_or_default())
    }

    /// Names of the resources that a seat takes of a node.
    pub(super) fn taken(&self) -> BTreeSet<String> {
        let pod = self.input("").build();
        pod.spec.as_ref().map(taken_by).unwrap_or_default()
    }
}
