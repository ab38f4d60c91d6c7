//! The application's source: fetched and built once, by the first job that needs it.

use std::fmt::Write as _;

use super::quoted;
use crate::launch::{PlannedBuild, Source};

/// Fetches and builds, unless that is done already. `contained`: the build runs in the job's container.
pub(super) fn build(script: &mut String, build: &PlannedBuild, contained: bool) {
    let _ = writeln!(script, "\ndlrun_source={}", quoted(&build.source));
    let _ = writeln!(
        script,
        "dlrun_checksum={}",
        quoted(build.checksum.as_deref().unwrap_or_default())
    );
    let _ = writeln!(
        script,
        "dlrun_recipe={}",
        quoted(build.command.as_deref().unwrap_or_default())
    );
    // The plan holds only sources of known kinds.
    match Source::from_text(&build.source).unwrap_or(Source::Path) {
        Source::Git => script.push_str(GIT),
        Source::Url => {
            let _ = write!(script, "{}{CHECKED}{URL}", file_name(&build.source));
        }
        Source::Path => {
            let _ = write!(script, "{}{CHECKED}{PATH}", file_name(&build.source));
        }
    }
    script.push_str(if contained {
        CONTAINED
    } else {
        "dlrun_builder=()\n"
    });
    script.push_str(BUILD);
}

/// The source's own name for its file, where that is harmless.
fn file_name(source: &str) -> String {
    let path = source.split(['?', '#']).next().unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default();
    let harmless = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    let usable = !name.is_empty() && !name.starts_with(['-', '.']) && name.chars().all(harmless);
    format!(
        "dlrun_file=$DLRUN_BUILD_DIR/{}\n",
        if usable { name } else { "source" }
    )
}

/// Never asks for a password.
const GIT: &str = r#"have_tools() {
    command -v git > /dev/null || give_up 66 "git is not found on $DLRUN_NODE, and the source is a git repository"
}
fetch() {
    local quiet=(env GIT_TERMINAL_PROMPT=0 git)
    attend . "${quiet[@]}" clone --quiet -- "$dlrun_source" "$DLRUN_BUILD_DIR" || return 1
    if [ -n "$dlrun_checksum" ]; then
        attend "$DLRUN_BUILD_DIR" "${quiet[@]}" checkout --quiet --detach "$dlrun_checksum" || return 1
        [ "$(git -C "$DLRUN_BUILD_DIR" rev-parse HEAD)" = "$dlrun_checksum" ] || return 1
    fi
    attend "$DLRUN_BUILD_DIR" "${quiet[@]}" submodule --quiet update --init --recursive
}
tell_changes() { :; }
"#;

const CHECKED: &str = r#"checked() { # a file has the checksum of the job file, and an archive is unpacked beside itself
    if [ -n "$dlrun_checksum" ]; then
        local sum
        sum=$(own sha256sum < "$dlrun_file")
        if [ "${sum%% *}" != "$dlrun_checksum" ]; then
            echo "dlrun: error: the source's SHA-256 is ${sum%% *}, not $dlrun_checksum" >&2
            return 1
        fi
    fi
    case $dlrun_file in
    *.tar.gz | *.tgz | *.tar.xz | *.txz | *.tar.bz2 | *.tar)
        attend "$DLRUN_BUILD_DIR" tar --extract --no-same-owner --file "$dlrun_file"
        ;;
    *.zip) attend "$DLRUN_BUILD_DIR" unzip -q "$dlrun_file" ;;
    esac
}
"#;

/// Certificates are checked, and nothing leads from https to anything else. wget cannot promise that, so it follows no
/// other address where there is no checksum.
const URL: &str = r#"have_tools() {
    command -v curl > /dev/null || command -v wget > /dev/null ||
        give_up 66 "neither curl nor wget is found on $DLRUN_NODE, and the source is a download"
}
fetch() {
    own mkdir "$DLRUN_BUILD_DIR" || return 1
    if command -v curl > /dev/null; then
        local from='=https'
        case $dlrun_source in http:*) from='=http,https' ;; esac
        attend . curl --fail --location --proto "$from" --proto-redir "$from" --silent --show-error --retry 3 \
            --output "$dlrun_file" --url "$dlrun_source" || return 1
    else
        local follow=(--max-redirect=20)
        [ -n "$dlrun_checksum" ] || follow=(--max-redirect=0)
        attend . wget --no-verbose "${follow[@]}" --output-document "$dlrun_file" -- "$dlrun_source" || return 1
    fi
    checked
}
tell_changes() { :; }
"#;

const PATH: &str = r#"have_tools() {
    [ -e "$dlrun_source" ] || give_up 66 "the source does not exist on $DLRUN_NODE: $dlrun_source"
    [ -z "$dlrun_checksum" ] || [ -f "$dlrun_source" ] ||
        give_up 65 "the source is a directory, which has no checksum: $dlrun_source"
}
fetch() {
    own mkdir "$DLRUN_BUILD_DIR" || return 1
    if [ -d "$dlrun_source" ]; then
        attend . cp -R -p -- "$dlrun_source/." "$DLRUN_BUILD_DIR/"
    else
        attend . cp -p -- "$dlrun_source" "$dlrun_file" && checked
    fi
}
tell_changes() { # other jobs may use what was built, so it stays as it is
    [ -z "$(own find "$dlrun_source" -newer "$DLRUN_BUILD_DIR.done" -print -quit 2> /dev/null)" ] ||
        echo "dlrun: warning: $dlrun_source was changed after it was built; remove $DLRUN_BUILD_DIR to build again" >&2
}
"#;

/// The container is entered where the build is done; so does the runtime by itself, but for a directory behind a link.
const CONTAINED: &str = "dlrun_builder=(\"${dlrun_enter[@]}\")\n";

/// The directory of the build is won by `mkdir` of its lock. Whoever holds the lock touches a file in it every ten seconds;
/// a lock that was not touched for two minutes is that of a job which is no more. Only changes count, so clocks of nodes may
/// differ.
const BUILD: &str = r#"dlrun_owner="$DLRUN_RUN_ID $DLRUN_NODE $$"
built() {
    [ -e "$DLRUN_BUILD_DIR.done" ] && [ -d "$DLRUN_BUILD_DIR" ]
}
build() { # under the lock
    own rm -rf "$DLRUN_BUILD_DIR" "$DLRUN_BUILD_DIR.done"
    echo "dlrun: fetching $dlrun_source" >&2
    fetch || give_up 66 "the source cannot be fetched: $dlrun_source"
    if [ -n "$dlrun_recipe" ]; then
        echo "dlrun: building in $DLRUN_BUILD_DIR" >&2
        local code
        attend "$DLRUN_BUILD_DIR" "${dlrun_builder[@]}" /bin/bash -c "$dlrun_recipe"
        code=$?
        [ "$code" = 0 ] || give_up "$code" "the build failed with exit code $code; what it left lies in $DLRUN_BUILD_DIR"
    fi
    [ "$(own cat "$dlrun_lock/owner")" = "$dlrun_owner" ] ||
        give_up 75 "another job took the build over: $DLRUN_BUILD_DIR"
    : > "$DLRUN_BUILD_DIR.done"
}
hold() { # takes the lock
    own mkdir "$DLRUN_BUILD_DIR.lock" 2> /dev/null || return 1
    dlrun_lock=$DLRUN_BUILD_DIR.lock
    printf '%s\n' "$dlrun_owner" > "$dlrun_lock/owner"
    (
        PATH=$dlrun_path
        trap 'kill "$!"; exit' TERM
        while
            sleep 10 &
            wait "$!"
            kill -0 "$$" 2> /dev/null && touch "$dlrun_lock/owner"
        do :; done
    ) > /dev/null 2>&1 < /dev/null &
    dlrun_beat=$!
}
release() {
    kill "$dlrun_beat" 2> /dev/null
    own rm -rf "$dlrun_lock"
    dlrun_lock=
    dlrun_beat=
}
take_away() { # take_away OWNER: a lock that nobody touches any more
    local aside=$DLRUN_BUILD_DIR.lock.$$.$RANDOM
    own mv -T "$DLRUN_BUILD_DIR.lock" "$aside" 2> /dev/null || return 0
    if [ "$(own cat "$aside/owner" 2> /dev/null)" = "$1" ]; then
        echo "dlrun: warning: the job that built this no longer exists: $1" >&2
        own rm -rf "$aside"
    else
        # Another was quicker, and this is its lock.
        own mv -T "$aside" "$DLRUN_BUILD_DIR.lock"
    fi
}
wait_for_build() { # until it is built or the lock is free
    local seen= now since=$SECONDS
    echo "dlrun: another job builds this; waiting for $DLRUN_BUILD_DIR" >&2
    while ! built && [ -e "$DLRUN_BUILD_DIR.lock" ]; do
        now=$(own cat "$DLRUN_BUILD_DIR.lock/owner" 2> /dev/null; own stat -c %Y "$DLRUN_BUILD_DIR.lock/owner" 2> /dev/null)
        if [ "$now" != "$seen" ]; then
            seen=$now
            since=$SECONDS
        elif [ $((SECONDS - since)) -ge 120 ]; then
            take_away "${seen%$'\n'*}"
            return
        fi
        own sleep 0.5
        asked_to_end
    done
}
own mkdir -p "${DLRUN_BUILD_DIR%/*}" || give_up 73 "cannot make the directory ${DLRUN_BUILD_DIR%/*}"
if built; then
    echo "dlrun: built already: $DLRUN_BUILD_DIR" >&2
    tell_changes
else
    have_tools
fi
dlrun_tries=0
while ! built; do
    if hold; then
        built || build
        release
    elif [ -e "$DLRUN_BUILD_DIR.lock" ]; then
        wait_for_build
    else
        dlrun_tries=$((dlrun_tries + 1))
        [ "$dlrun_tries" -lt 5 ] || give_up 73 "cannot make $DLRUN_BUILD_DIR.lock"
    fi
done
"#;
