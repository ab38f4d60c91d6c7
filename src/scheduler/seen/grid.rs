//! Tables as schedulers print them: between separators, under dashes, or aligned with a head of words.

use super::Columns;

/// A table as rows of named cells.
pub(super) struct Grid<'a> {
    /// The columns' names in small letters and digits alone: `nodelistreason`.
    pub(super) names: Vec<String>,
    pub(super) rows: Vec<Vec<&'a str>>,
    /// Under each row: what begins with a blank and has no cell in the first column (`qstat -n`, `qstat -s`).
    pub(super) below: Vec<String>,
}

/// What a cell can be, by its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Begins with a digit: ids and counts.
    Number,
    /// One of the scheduler's words for a state.
    State,
    /// A clock, or that there is none.
    Time,
    /// Anything, blanks too.
    Free,
}

/// How the caller sees columns and cells.
pub(super) struct Words {
    /// What a column holds, by its plain name; `None` of a name that no scheduler prints.
    pub(super) kind: fn(&str) -> Option<Kind>,
    pub(super) is_state: fn(&str) -> bool,
}

/// A name without case, blanks, signs and the width behind `%`: that is what differs between the programs.
pub(super) fn plain(name: &str) -> String {
    let name = name.trim().split('%').next().unwrap_or_default();
    name.chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect()
}

/// Reads the first table of a text, wherever its head is: prompts, dates and greetings come before.
pub(super) fn read<'a>(text: &'a str, columns: Columns<'_>, words: &Words) -> Option<Grid<'a>> {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    if !columns.names.is_empty() {
        return Some(named(&lines, columns));
    }
    for at in 0..lines.len().min(HEAD_WITHIN) {
        if let Some(separator) = separator(lines[at], columns.separator, words) {
            let names: Vec<String> = lines[at].split(separator).map(plain).collect();
            let rows = rest(&lines, at, 1)
                .map(|line| split(line, Some(separator), names.len()))
                .collect();
            return Some(Grid {
                names,
                rows,
                below: Vec::new(),
            });
        }
        if lines.get(at + 1).is_some_and(|line| is_rule(line)) {
            return Some(ruled(&lines, at, words));
        }
        let head = tokens(lines[at]);
        let known = head
            .iter()
            .filter(|token| (words.kind)(&plain(token.text)).is_some())
            .count();
        if head.len() >= 2
            && known * 4 >= head.len() * 3
            && head.iter().all(|token| !is_digits(token.text))
        {
            let heads = head
                .iter()
                .map(|token| (plain(token.text), token.from, token.to))
                .collect();
            return Some(aligned(&lines, at, 1, heads, words));
        }
    }
    None
}

/// A head is looked for in so many lines.
const HEAD_WITHIN: usize = 40;

fn is_digits(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

fn is_rule(line: &str) -> bool {
    line.contains("--") && line.bytes().all(|b| b"-= \t".contains(&b))
}

/// The lines of a table; of several clusters each has its head again.
fn rest<'l, 'a>(
    lines: &'l [&'a str],
    at: usize,
    height: usize,
) -> impl Iterator<Item = &'a str> + 'l {
    let head = lines[at];
    lines[at + height..]
        .iter()
        .copied()
        .filter(move |line| *line != head && !line.starts_with("CLUSTER:"))
}

/// Columns that the caller names, in a table that may have a head all the same.
fn named<'a>(lines: &[&'a str], columns: Columns<'_>) -> Grid<'a> {
    let first = lines.first().copied().unwrap_or_default();
    let separator = columns
        .separator
        .or_else(|| first.contains('|').then_some("|"));
    let names: Vec<String> = columns.names.iter().map(|name| plain(name)).collect();
    let rows = lines
        .iter()
        .map(|line| split(line, separator, names.len()))
        .collect();
    Grid {
        names,
        rows,
        below: Vec::new(),
    }
}

/// What separates the cells of a head; `None` where it holds none, or is no head.
fn separator<'s>(head: &str, given: Option<&'s str>, words: &Words) -> Option<&'s str> {
    // A command line, not a head.
    if head.contains(['$', '\'', '"', '=', '{']) {
        return None;
    }
    let fits = |separator: &&str| {
        let cells: Vec<String> = head.split(separator).map(plain).collect();
        let known = cells
            .iter()
            .filter(|name| (words.kind)(name).is_some())
            .count();
        cells.len() >= 2
            && known >= 2
            && known * 2 >= cells.iter().filter(|name| !name.is_empty()).count()
    };
    given
        .into_iter()
        .chain(["|", "\t", ",", ";", "^"])
        .find(fits)
}

/// Cells between separators, or between blanks. What is too much belongs to the last one: names hold anything.
fn split<'a>(line: &'a str, separator: Option<&str>, count: usize) -> Vec<&'a str> {
    match separator {
        Some(separator) => line
            .splitn(count.max(1), separator)
            .map(str::trim)
            .collect(),
        None => {
            let mut cells = Vec::new();
            let mut rest = line.trim();
            while !rest.is_empty() && cells.len() + 1 < count.max(1) {
                let (cell, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                cells.push(cell);
                rest = after.trim_start();
            }
            if !rest.is_empty() {
                cells.push(rest);
            }
            cells
        }
    }
}

/// A word of a line, with its place in characters and in bytes.
struct Token<'a> {
    text: &'a str,
    from: usize,
    to: usize,
    begin: usize,
}

fn tokens(line: &str) -> Vec<Token<'_>> {
    let mut tokens: Vec<Token<'_>> = Vec::new();
    let mut start: Option<(usize, usize)> = None;
    let ends = line.char_indices().chain([(line.len(), ' ')]);
    for (column, (at, c)) in ends.enumerate() {
        match (c.is_whitespace(), start) {
            (false, None) => start = Some((column, at)),
            (true, Some((from, begin))) => {
                tokens.push(Token {
                    text: &line[begin..at],
                    from,
                    to: column,
                    begin,
                });
                start = None;
            }
            _ => {}
        }
    }
    tokens
}

/// What `qstat -a` and `pbsnodes -aSj` have above their heads.
const UPPER_HEADS: [&str; 6] = ["Req'd", "Elap", "mem", "ncpus", "nmics", "ngpus"];

/// Dashes below the head are as wide as the columns. What is above the head belongs to it (`Req'd` above `Time`).
fn ruled<'a>(lines: &[&'a str], at: usize, words: &Words) -> Grid<'a> {
    let is_part = |line: &&str| {
        line.split_whitespace()
            .all(|word| UPPER_HEADS.contains(&word))
    };
    let above = at.checked_sub(1).map(|above| lines[above]).filter(is_part);
    let under = |line: &str, from: usize, to: usize| -> String {
        let fits = |token: &Token<'_>| token.from < to && token.to > from;
        tokens(line)
            .iter()
            .filter(|token| fits(token))
            .map(|token| token.text.to_owned())
            .collect()
    };
    let (rule, head) = (tokens(lines[at + 1]), tokens(lines[at]));
    let heads = rule.iter().enumerate().map(|(column, dashes)| {
        // One word each, wherever a mail has moved them.
        if above.is_none() && head.len() == rule.len() {
            return (plain(head[column].text), dashes.from, dashes.to);
        }
        let name = above
            .map(|line| under(line, dashes.from, dashes.to))
            .unwrap_or_default();
        (
            plain(&format!(
                "{name}{}",
                under(lines[at], dashes.from, dashes.to)
            )),
            dashes.from,
            dashes.to,
        )
    });
    aligned(lines, at, 2, heads.collect(), words)
}

/// A column: its name, where its head begins and where it ends.
type Head = (String, usize, usize);

fn aligned<'a>(
    lines: &[&'a str],
    at: usize,
    height: usize,
    heads: Vec<Head>,
    words: &Words,
) -> Grid<'a> {
    let mut grid = Grid {
        names: heads.iter().map(|head| head.0.clone()).collect(),
        rows: Vec::new(),
        below: Vec::new(),
    };
    let first_number = (words.kind)(&heads[0].0) == Some(Kind::Number);
    let heads = spread(
        heads,
        &rest(lines, at, height).map(tokens).collect::<Vec<_>>(),
    );
    for line in rest(lines, at, height) {
        let tokens = tokens(line);
        let is_below = line.starts_with(char::is_whitespace) && first_number && height == 2;
        if let (true, Some(below)) = (is_below && !is_digits(line.trim()), grid.below.last_mut()) {
            // A list of places is broken at its `+`.
            let goes_on = below.is_empty() || below.ends_with('+') || line.trim().starts_with('+');
            below.push_str(if goes_on { "" } else { " " });
            below.push_str(line.trim());
            continue;
        }
        grid.rows.push(fitted(line, &tokens, &heads, words));
        grid.below.push(String::new());
    }
    grid
}

/// The columns as wide as they are: where every row has a word that begins below the head, the column reaches to the next
/// head; where one ends below the head's end, it begins behind the former head.
fn spread(mut heads: Vec<Head>, rows: &[Vec<Token<'_>>]) -> Vec<Head> {
    for column in 0..heads.len() {
        let (from, to) = (heads[column].1, heads[column].2);
        let all = |fits: &dyn Fn(&Token<'_>) -> bool| rows.iter().all(|row| row.iter().any(fits));
        let (left, right) = (
            all(&|token| token.from == from),
            all(&|token| token.to == to),
        );
        if left && !right {
            heads[column].2 = heads
                .get(column + 1)
                .map_or(to, |next| next.1.saturating_sub(1).max(to));
        } else if right && !left {
            let former = column
                .checked_sub(1)
                .map_or(0, |former| heads[former].2 + 1);
            heads[column].1 = former.min(from);
        }
    }
    heads
}

/// More words than this are not fitted; the last column has the rest.
const MOST_TOKENS: usize = 60;

/// The words of a line under the heads that they fit best: columns are aligned left or right, cells may be empty or hold
/// blanks. The cheapest of all ways in order, by dynamic programming.
fn fitted<'a>(line: &'a str, tokens: &[Token<'a>], heads: &[Head], words: &Words) -> Vec<&'a str> {
    // As many words as columns, each of its kind: they need not be below their heads.
    let is_simple = tokens.len() == heads.len()
        && tokens
            .iter()
            .zip(heads)
            .all(|(token, head)| fits(token, kind_of(head, words), words));
    if is_simple {
        return tokens.iter().map(|token| token.text).collect();
    }
    let count = tokens.len().min(MOST_TOKENS);
    // cost[i]: of the first i words in the columns so far; from[j][i]: where the cell of column j began.
    let mut cost = vec![u64::MAX; count + 1];
    cost[0] = 0;
    let mut from = vec![vec![0; count + 1]; heads.len()];
    for (column, head) in heads.iter().enumerate() {
        let mut next = vec![u64::MAX; count + 1];
        for end in 0..=count {
            for begin in 0..=end {
                let Some(total) = cost[begin].checked_add(price(
                    &tokens[begin..end],
                    head,
                    column + 1 == heads.len(),
                    words,
                )) else {
                    continue;
                };
                if total < next[end] {
                    next[end] = total;
                    from[column][end] = begin;
                }
            }
        }
        cost = next;
    }
    let mut cells = vec![""; heads.len()];
    let mut end = count;
    for column in (0..heads.len()).rev() {
        let begin = from[column][end];
        if begin < end {
            let is_last = end == count;
            let last = if is_last {
                line.len()
            } else {
                tokens[end - 1].begin + tokens[end - 1].text.len()
            };
            cells[column] = line[tokens[begin].begin..last].trim_end();
        }
        end = begin;
    }
    cells
}

fn kind_of(head: &Head, words: &Words) -> Kind {
    (words.kind)(&head.0).unwrap_or(Kind::Free)
}

/// Says whether a word can begin a cell of this kind.
fn fits(first: &Token<'_>, kind: Kind, words: &Words) -> bool {
    match kind {
        Kind::Number => is_digits(first.text) || first.text.starts_with("--"),
        Kind::State => (words.is_state)(first.text),
        Kind::Time => first.text.contains(':') || !is_digits(first.text),
        Kind::Free => true,
    }
}

/// How ill some words fit under a head.
fn price(cell: &[Token<'_>], head: &Head, is_last: bool, words: &Words) -> u64 {
    const WRONG: u64 = 1000;
    let kind = kind_of(head, words);
    let Some(first) = cell.first() else {
        return if kind == Kind::State { WRONG } else { 4 };
    };
    let more = u64::try_from(cell.len() - 1).unwrap_or(u64::MAX);
    let more = if kind == Kind::Free {
        more
    } else {
        more.saturating_mul(WRONG / 2)
    };
    // What goes on to the right of the last head belongs to it.
    let gap = |token: &Token<'_>| {
        let right = if is_last {
            0
        } else {
            token.from.saturating_sub(head.2)
        };
        u64::try_from(right.max(head.1.saturating_sub(token.to)))
            .unwrap_or(u64::MAX)
            .min(30)
    };
    let gap: u64 = cell.iter().map(gap).sum();
    more.saturating_add(gap * 2)
        .saturating_add(if fits(first, kind, words) { 0 } else { WRONG })
}
