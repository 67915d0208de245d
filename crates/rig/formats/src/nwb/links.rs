//! The length of an HDF5 file, and the files that its external links lead to.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use betz_base::error::{Error, Result};
use rust_hdf5::format::superblock::{SuperblockV0V1, SuperblockV2V3};
use rust_hdf5::{H5File, H5Group, LinkClass};

use super::hdf5_error::guarded;

/// Bytes of the largest superblock, and more.
const SUPERBLOCK: usize = 256;
/// Groups that are searched for external links at most, and how deep.
const MOST_GROUPS: usize = 1000;
const DEEPEST: usize = 6;
/// Most soft links that are followed, and how many may lead one to the next.
const MOST_LINKS: usize = 10_000;
pub(super) const DEEPEST_CHAIN: usize = 4;
/// Groups at the root that hold no data.
const NO_DATA: [&str; 2] = ["general", "specifications"];

/// Refuses a file that is shorter than its superblock says.
pub(super) fn check_length(path: &Path, bytes: u64) -> Result<()> {
    let Some(start) = crate::superblock(path, SUPERBLOCK) else {
        return Ok(());
    };
    let end = match SuperblockV2V3::decode(&start) {
        Ok(block) => block.end_of_file_address,
        Err(_) => match SuperblockV0V1::decode(&start) {
            Ok(block) => block.end_of_file_address,
            // The crate says what is wrong with it.
            Err(_) => return Ok(()),
        },
    };
    if end != u64::MAX && bytes < end {
        return Err(Error::recording(format!(
            "expected {end} bytes, as the file's head says, got {bytes}: the file was cut short; copy it again"
        )));
    }
    Ok(())
}

/// Paths of all datasets of `file`, without a slash at the beginning.
pub(super) fn dataset_names(file: &H5File) -> Result<BTreeSet<String>> {
    let names = guarded("HDF5", || Ok(file.dataset_names()))?;
    let plain = |name: String| name.trim_start_matches('/').to_owned();
    Ok(names.into_iter().map(plain).collect())
}

/// Another file, which an external link leads to.
pub(super) struct LinkTarget {
    /// Path of the link.
    at: String,
    pub(super) file: H5File,
    /// Path in the other file.
    target: String,
    /// Size of the other file.
    pub(super) bytes: u64,
}

impl LinkTarget {
    /// The path in the other file of `path`; `None` if `path` does not cross the link.
    pub(super) fn inside(&self, path: &str) -> Option<String> {
        let rest = path.trim_start_matches('/').strip_prefix(&self.at)?;
        (rest.is_empty() || rest.starts_with('/')).then(|| format!("{}{rest}", self.target))
    }

    /// Paths of the datasets behind the link, as they are called in the linking file.
    pub(super) fn datasets(&self) -> Result<Vec<String>> {
        let names = dataset_names(&self.file)?;
        let behind = names.iter().filter_map(|name| {
            let rest = match self.target.as_str() {
                "" => return Some(format!("{}/{name}", self.at)),
                target => name.strip_prefix(target)?,
            };
            (rest.is_empty() || rest.starts_with('/')).then(|| format!("{}{rest}", self.at))
        });
        Ok(behind.collect())
    }
}

/// Links as they stand in the file.
#[derive(Default)]
struct FoundLinks {
    external: Vec<ExternalLink>,
    aliases: Vec<(String, String)>,
}

/// An external link as it stands in the file.
struct ExternalLink {
    at: String,
    file: String,
    target: String,
}

/// Links of a file to other paths.
pub(super) struct Links {
    /// Files that external links lead to.
    pub(super) linked: Vec<LinkTarget>,
    /// External links whose files are missing, one sentence each.
    pub(super) dangling: Vec<String>,
    /// Soft links: their paths, and the paths that they lead to.
    pub(super) aliases: Vec<(String, String)>,
}

/// Paths behind soft links, as they are called by way of the link.
pub(super) fn behind(aliases: &[(String, String)], datasets: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    for (at, target) in aliases {
        let below = datasets.range(target.clone()..);
        for name in below.take_while(|name| name.starts_with(target.as_str())) {
            let rest = &name[target.len()..];
            if rest.is_empty() || rest.starts_with('/') {
                found.push(format!("{at}{rest}"));
            }
        }
    }
    found
}

/// The links of `file`, which is at `path`.
pub(super) fn read(file: &H5File, path: &Path) -> Result<Links> {
    let mut all = FoundLinks::default();
    let mut groups = 0;
    guarded("HDF5", || {
        search(&file.root_group(), "", 0, &mut groups, &mut all)
    })?;
    let FoundLinks { external, aliases } = all;
    let folder = path.parent().unwrap_or(Path::new("."));
    let (mut linked, mut dangling) = (Vec::new(), Vec::new());
    for link in external {
        let beside = Path::new(&link.file)
            .file_name()
            .map(|name| folder.join(name));
        let places = [Some(folder.join(&link.file)), beside];
        let there: Option<(PathBuf, u64)> = places.into_iter().flatten().find_map(|place| {
            let metadata = place.metadata().ok().filter(std::fs::Metadata::is_file)?;
            Some((place, metadata.len()))
        });
        let Some((place, bytes)) = there else {
            dangling.push(format!(
                "{}: leads to {}, which is not there: left out; copy it beside this file",
                link.at, link.file
            ));
            continue;
        };
        check_length(&place, bytes).map_err(|e| e.at(place.display()))?;
        let file = guarded(&link.file, || H5File::options().no_locking().open(&place))?;
        linked.push(LinkTarget {
            at: link.at,
            file,
            target: link.target.trim_matches('/').to_owned(),
            bytes,
        });
    }
    Ok(Links {
        linked,
        dangling,
        aliases,
    })
}

fn search(
    group: &H5Group,
    path: &str,
    depth: usize,
    groups: &mut usize,
    found: &mut FoundLinks,
) -> rust_hdf5::Result<()> {
    *groups += 1;
    let under = |name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path}/{name}"),
    };
    for name in group.link_names()? {
        match group.link_class(&name) {
            Ok(LinkClass::External { file, path }) => found.external.push(ExternalLink {
                at: under(&name),
                file,
                target: path,
            }),
            Ok(LinkClass::Soft { path: target }) => {
                // A path without a slash at its beginning counts from the group.
                let target = match target.strip_prefix('/') {
                    Some(target) => target.to_owned(),
                    None => under(&target),
                };
                let at = under(&name);
                let target = target.trim_end_matches('/').to_owned();
                // A link to a group above itself has no end.
                let circle = at == target || at.starts_with(&format!("{target}/"));
                if !target.is_empty() && !circle && found.aliases.len() < MOST_LINKS {
                    found.aliases.push((at, target));
                }
            }
            _ => {}
        }
    }
    if depth == DEEPEST {
        return Ok(());
    }
    for name in group.group_names()? {
        if *groups >= MOST_GROUPS {
            break;
        }
        if depth == 0 && NO_DATA.contains(&name.as_str()) {
            continue;
        }
        // A group that cannot be opened is missed when it is read.
        if let Ok(inside) = group.group(&name) {
            search(&inside, &under(&name), depth + 1, groups, found)?;
        }
    }
    Ok(())
}
