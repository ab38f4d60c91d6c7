//! Job ids of PBS: `14.server`, of an array `14[].server`, of its elements `14[3].server`.

/// Says whether two ids mean one job: people and scripts leave out the server.
pub(in crate::scheduler) fn same(one: &str, other: &str) -> bool {
    let halves =
        |id| str::split_once(id, '.').map_or((id, None), |(number, server)| (number, Some(server)));
    let ((number, server), (other_number, other_server)) = (halves(one), halves(other));
    number == other_number
        && server
            .zip(other_server)
            .is_none_or(|(one, other)| one == other)
}

/// The array and the index of an element's id.
pub(in crate::scheduler) fn element(id: &str) -> Option<(String, u32)> {
    let (number, rest) = id.split_once('[')?;
    let (index, server) = rest.split_once(']')?;
    Some((format!("{number}[]{server}"), index.parse().ok()?))
}

/// What all ids of a job and of its elements have in common: `14`.
pub(in crate::scheduler) fn number(id: &str) -> &str {
    id.split(['.', '[']).next().unwrap_or_default()
}

/// Says whether a line of an answer is the id of a job or of an array, with its server.
pub(in crate::scheduler) fn is_id(line: &str) -> bool {
    let Some((number, server)) = line.split_once('.') else {
        return false;
    };
    let number = number.strip_suffix("[]").unwrap_or(number);
    let is_number =
        !number.is_empty() && number.len() <= 20 && number.bytes().all(|b| b.is_ascii_digit());
    let is_host = !server.is_empty()
        && server
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b));
    is_number && is_host
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_may_be_left_out_but_nothing_else() {
        for (one, other) in [
            ("14.srv", "14.srv"),
            ("14", "14.srv"),
            ("14[].srv", "14[]"),
            ("14[3]", "14[3].srv"),
        ] {
            assert!(same(one, other) && same(other, one), "{one} {other}");
        }
        for (one, other) in [
            ("14.srv", "14.other"),
            ("1", "14.srv"),
            ("14", "14[]"),
            ("14[3].srv", "14[].srv"),
            ("", "1.s"),
        ] {
            assert!(!same(one, other) && !same(other, one), "{one} {other}");
        }
    }

    #[test]
    fn elements_name_their_array() {
        assert_eq!(element("14[3].srv.site"), Some(("14[].srv.site".into(), 3)));
        for id in ["14.srv", "14[].srv", "14[x].srv", "14[3"] {
            assert_eq!(element(id), None, "{id}");
        }
    }

    #[test]
    fn ids_are_told_from_greetings() {
        assert!(is_id("4711.pbs") && is_id("10[].pbs.site.org"));
        for line in [
            "",
            "4711",
            "pbs.4711",
            "[].pbs",
            "1 2.pbs",
            "Welcome to 7.0!",
            "10[3].pbs",
        ] {
            assert!(!is_id(line), "{line}");
        }
    }
}
