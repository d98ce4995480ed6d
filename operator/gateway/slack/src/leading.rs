//! The shard for which this replica leads. The leader of the first one also sweeps: it searches channels for messages
//! that no socket delivered.

use codebutler_runtime::shards::GatewayShard;
use parking_lot::Mutex;
use tokio::sync::watch;

pub(crate) struct LeadingShard {
    /// The shard for which this replica serves agents, while it does.
    shard: Mutex<Option<GatewayShard>>,
    /// True while this replica sweeps the channels: the leader of the first shard does.
    sweeps: watch::Sender<bool>,
}

impl Default for LeadingShard {
    fn default() -> Self {
        Self { shard: Mutex::default(), sweeps: watch::Sender::new(false) }
    }
}

impl LeadingShard {
    pub(crate) fn begin(&self, shard: GatewayShard) {
        *self.shard.lock() = Some(shard);
        self.sweeps.send_replace(shard.is_first());
    }

    pub(crate) fn end(&self) {
        self.sweeps.send_replace(false);
        *self.shard.lock() = None;
    }

    /// True while this replica leads for the shard of a Repo.
    pub(crate) fn has(&self, namespace: &str, repo: &str) -> bool {
        self.shard.lock().is_some_and(|shard| shard.has(namespace, repo))
    }

    pub(crate) fn sweeps(&self) -> bool {
        *self.sweeps.borrow()
    }

    /// Follows [`Self::sweeps`] as it changes.
    pub(crate) fn watch_sweeps(&self) -> watch::Receiver<bool> {
        self.sweeps.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_leader_of_the_first_shard_sweeps() {
        let leading = LeadingShard::default();
        assert!(!leading.sweeps() && !leading.has("team", "shop"));
        for index in 0..2 {
            let shard = GatewayShard::new(index, 2);
            leading.begin(shard);
            assert_eq!(leading.sweeps(), index == 0);
            assert_eq!(leading.has("team", "shop"), shard.has("team", "shop"));
        }
        leading.end();
        assert!(!leading.sweeps() && !leading.has("team", "shop"));
    }
}
