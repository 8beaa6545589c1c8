//! What the options of a transfer come to: its policy, its first streams, and what both halves are told.

use std::num::NonZeroU16;

use crate::broker::Claim;
use crate::control::SetBy;
use crate::endpoint::Endpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::history;
use crate::optimizer::{Haste, PerStage, Policy, PolicyName};
use crate::options::{Digest, Fsync, Overwrite, RunMode, Selection, Symlinks, TransferOptions};
use crate::path::RelativePath;
use crate::plan::minimal;
use crate::protocol::message::{ReceiveOptions, Root, SendOptions};
use crate::session::Work;

/// The policy of the options within what a server and the stores at this side allow, and what sets its limit.
pub(super) fn policy(options: &TransferOptions, work: &Work, allowed: u16) -> (Policy, SetBy) {
    let stores: Vec<_> = work.source.iter().chain(&work.destination).map(|store| store.capabilities()).collect();
    let connections = stores.iter().filter_map(|store| store.connections).min().unwrap_or(u16::MAX);
    let in_order = work.destination.as_ref().is_some_and(|store| !store.capabilities().random_writes);
    let parallelism = options.parallelism.map_or(u16::MAX, NonZeroU16::get);
    let (limit, set_by) = limit(options, allowed.min(connections));
    let policy = Policy {
        parallelism: if in_order { 1 } else { parallelism },
        pipelining: options.pipelining.unwrap_or(u16::MAX),
        ..Policy::new(options.policy, limit)
    };
    (policy, set_by)
}

/// The most streams where there may be so many whatever the options say, and what sets that.
pub(super) fn limit(options: &TransferOptions, allowed: u16) -> (u16, SetBy) {
    let wanted = options.max_streams.get();
    if wanted < allowed { (wanted, SetBy::Option) } else { (allowed, SetBy::Others) }
}

/// Whether many streams at once may be worth their while: not where the transfer stays behind others, and not where much of what there
/// is may be left out because it stands at the destination.
pub(super) fn haste(options: &TransferOptions) -> Haste {
    let all = options.selection == Selection::All && options.overwrite == Overwrite::Replace;
    if all && options.policy != PolicyName::Low { Haste::Allowed } else { Haste::Never }
}

/// What of a transfer is in this process.
pub(super) struct Here {
    /// The stages whose workers are.
    pub(super) stages: PerStage<bool>,
    /// Buffers of the size that the options say.
    pub(super) buffers: u64,
}

impl Here {
    pub(super) fn of(work: &Work) -> Self {
        let stages = PerStage { read: work.source.is_some(), network: true, write: work.destination.is_some() };
        // Where the thread that reads a block writes it too, the receiver's is not used.
        Self { stages, buffers: if work.direct { 1 } else { u64::from(stages.read) + u64::from(stages.write) } }
    }
}

/// What a transfer brings along when it shares the limits of its host with others.
pub(super) fn claim(
    options: &TransferOptions,
    sources: &[Endpoint],
    destination: &Endpoint,
    policy: &Policy,
    here: &Here,
) -> Claim {
    let mut ends = [destination].into_iter().chain(sources.first());
    let server = ends.find_map(|endpoint| history::server(endpoint).ok().flatten());
    Claim {
        server: server.unwrap_or_default(),
        policy: policy.name,
        limit: policy.limit.network,
        here: here.stages,
        memory: options.buffer.saturating_mul(here.buffers),
        rate: options.limit_rate,
    }
}

pub(super) fn send_options(options: &TransferOptions, roots: Vec<Root>) -> SendOptions {
    SendOptions {
        roots,
        include: options.include.clone(),
        exclude: options.exclude.clone(),
        symlinks: match options.symlinks {
            Symlinks::Keep => 0,
            Symlinks::Follow => 1,
            Symlinks::Skip => 2,
        },
        digest: u8::from(options.digest == Digest::Blake3),
        chunk_size: options.chunk_size,
        limit_rate: options.limit_rate,
        congestion: options.congestion.clone(),
        dry_run: options.run == RunMode::DryRun,
        made_up: None,
        times: 0,
    }
}

pub(super) fn receive_options(options: &TransferOptions) -> ReceiveOptions {
    ReceiveOptions {
        file_name: None,
        into: false,
        selection: match options.selection {
            Selection::All => 0,
            Selection::Changed => 1,
            Selection::Mirror => 2,
        },
        overwrite: u8::from(options.overwrite == Overwrite::Never),
        fsync: match options.fsync {
            Fsync::None => 0,
            Fsync::File => 1,
            Fsync::Full => 2,
        },
        digest: u8::from(options.digest == Digest::Blake3),
        include: options.include.clone(),
        exclude: options.exclude.clone(),
        dry_run: options.run == RunMode::DryRun,
        discard: false,
        forget: false,
    }
}

/// What is chosen below the only source, which is a directory; `None`: all.
pub(super) fn chosen(options: &TransferOptions, roots: &[Root], is_file: bool) -> Result<Option<Vec<RelativePath>>> {
    let Some(files) = &options.files else { return Ok(None) };
    let refused = |cause: &str| {
        Err(Error::new(ErrorKind::InvalidInput, "could not choose files of the source")
            .with_cause(cause)
            .with_hint("name one directory as the source, and the files below it"))
    };
    match roots {
        [_] if is_file => refused("the source is no directory"),
        [_] => Ok(Some(minimal(files.clone()))),
        _ => refused("there are several sources"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_transfer_that_sends_all_there_is_and_stays_behind_nobody_makes_haste() {
        let usual = TransferOptions::default();
        assert_eq!(haste(&usual), Haste::Allowed);
        assert_eq!(haste(&TransferOptions { policy: PolicyName::High, ..usual.clone() }), Haste::Allowed);
        assert_eq!(haste(&TransferOptions { policy: PolicyName::Low, ..usual.clone() }), Haste::Never);
        for selection in [Selection::Changed, Selection::Mirror] {
            assert_eq!(haste(&TransferOptions { selection, ..usual.clone() }), Haste::Never);
        }
        assert_eq!(haste(&TransferOptions { overwrite: Overwrite::Never, ..usual }), Haste::Never);
    }

    #[test]
    fn the_option_sets_the_most_streams_only_where_it_is_the_smallest() {
        let options = TransferOptions { max_streams: NonZeroU16::new(64).unwrap(), ..TransferOptions::default() };
        assert_eq!(limit(&options, u16::MAX), (64, SetBy::Option));
        assert_eq!(limit(&options, 128), (64, SetBy::Option));
        // A higher option would not help.
        assert_eq!(limit(&options, 64), (64, SetBy::Others));
        assert_eq!(limit(&options, 8), (8, SetBy::Others));
    }
}
