//! How much of the daemon's memory the records of users may take.

/// Bytes of JSON that the records of one user's runs may weigh together, and those of all: in memory, in the queue of the
/// database and in its cache they take some eight times as much.
pub(super) const OF_USER: usize = 3 << 20;
pub(super) const OF_ALL: usize = 12 << 20;
/// Who holds no more than this, some dozens of ordinary runs, has room beyond that: heavy users keep no other out.
const LIGHT: usize = 256 << 10;
const FOR_LIGHT: usize = 4 << 20;

/// Whether a record of this weight has room beside those that are `held`, by user id.
///
/// # Errors
/// Which budget it is over.
pub(super) fn room(
    held: impl Iterator<Item = (u32, usize)>,
    uid: u32,
    weight: usize,
) -> Result<(), String> {
    let (mut of_user, mut of_all) = (weight, weight);
    for (holder, weight) in held {
        of_all += weight;
        of_user += if holder == uid { weight } else { 0 };
    }
    let most = OF_ALL + if of_user <= LIGHT { FOR_LIGHT } else { 0 };
    match (of_user > OF_USER, of_all > most) {
        (true, _) => Err(format!(
            "the records of user id {uid} weigh {of_user} bytes; {OF_USER} is the limit"
        )),
        (_, true) => Err(format!(
            "the records of all users weigh {of_all} bytes; {OF_ALL} is the limit"
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heavy_users_leave_room_for_light_ones() {
        let full = || (1..=4).map(|uid| (uid, OF_USER));
        assert!(room(full(), 5, LIGHT + 1).is_err());
        assert_eq!(room(full(), 5, LIGHT), Ok(()));
        assert!(room(full(), 1, 1).is_err());
        let crowd = full().chain((10..26).map(|uid| (uid, LIGHT)));
        assert!(room(crowd, 5, 1).is_err());
    }
}
