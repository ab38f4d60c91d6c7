//! A stand-in for NVIDIA's `libnvidia-ml.so.1`, driven by a file: `state` beside the library.
//!
//! Compiled by the tests (`support/nvml.rs`) with plain rustc; std only. The file is looked at in every call, so that a
//! test changes GPUs while a program reads them. Its lines are words; `#` begins a comment:
//!
//! ```text
//! driver 550.54.15        version; decides which numbers the fields 251 to 273 have
//! now MS                  the time of traces; without it, since the library was loaded
//! log                     each call is written to `calls` beside the library
//! return SYMBOL CODE      of a GPU where it stands below one, else of all
//! delay SYMBOL MS         SYMBOL may be `*` in all three
//! hang SYMBOL             until the file says otherwise
//! event NUMBER UUID XID   told once to each who registered before the number appeared
//! gpu UUID                a GPU begins; its lines follow
//! slice UUID INSTANCE     a MIG slice of the last GPU begins
//! KEY VALUE…              a value; one that is not given is not supported (3)
//! at MS KEY VALUE…        the same from that time on, in the place of former lines of that key; `at MS KEY`: none
//! ```
//!
//! With `--cfg old` it is the library of driver 470: no `nvmlDeviceGetMemoryInfo_v2`, and processes by `_v2` alone.
//!
//! Keys: name, minor, pci, mig, power_limit, clock_max, nvlinks (active all), memory (total used reserved), utilisation
//! (gpu memory), power, energy, temperature, clocks (sm memory), throttle, `field ID VALUE [SCOPE]`, `process PID BYTES`, `use PID PERCENT`,
//! `hidden N` (processes that the first of two calls does not count), gpm (sm occupancy tensor dram).
#![allow(non_snake_case, clippy::missing_safety_doc)]

use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const SUCCESS: c_int = 0;
const UNINITIALIZED: c_int = 1;
const INVALID_ARGUMENT: c_int = 2;
const NOT_SUPPORTED: c_int = 3;
const NOT_FOUND: c_int = 6;
const INSUFFICIENT_SIZE: c_int = 7;
const TIMEOUT: c_int = 10;
#[cfg(not(old))]
const VERSION_MISMATCH: c_int = 25;

#[repr(C)]
struct DlInfo {
    file: *const c_char,
    base: *mut c_void,
    symbol: *const c_char,
    address: *mut c_void,
}

unsafe extern "C" {
    fn dladdr(address: *const c_void, info: *mut DlInfo) -> c_int;
}

/// The directory of this very copy of the library.
fn place() -> &'static PathBuf {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| unsafe {
        let mut info: DlInfo = std::mem::zeroed();
        assert!(dladdr(nvmlInit_v2 as *const c_void, &mut info) != 0, "dladdr");
        let file = OsStr::from_bytes(CStr::from_ptr(info.file).to_bytes());
        PathBuf::from(file).parent().expect("a directory").to_owned()
    })
}

#[derive(Default, Clone)]
struct Device {
    uuid: String,
    /// Of a slice: its parent's place in the list and its number.
    slice_of: Option<(usize, c_uint)>,
    lines: Vec<(u64, Vec<String>)>,
}

#[derive(Default)]
struct State {
    driver: String,
    now: Option<u64>,
    log: bool,
    lines: Vec<Vec<String>>,
    events: Vec<(u64, String, u64)>,
    devices: Vec<Device>,
}

fn parse(text: &str) -> State {
    let mut state = State { driver: "550.54.15".into(), ..State::default() };
    let mut whole = 0;
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let Some(first) = words.first() else { continue };
        match (first.as_str(), state.devices.last_mut()) {
            ("driver", _) => state.driver = words[1].clone(),
            ("now", _) => state.now = Some(number(&words, 1)),
            ("log", _) => state.log = true,
            ("event", _) => state.events.push((number(&words, 1), words[2].clone(), number(&words, 3))),
            ("gpu", _) => {
                whole = state.devices.len();
                state.devices.push(Device { uuid: words[1].clone(), ..Device::default() });
            }
            ("slice", Some(_)) => {
                let slice_of = Some((whole, number(&words, 2) as c_uint));
                state.devices.push(Device { uuid: words[1].clone(), slice_of, lines: Vec::new() });
            }
            ("at", Some(device)) => device.lines.push((number(&words, 1), words[2..].to_vec())),
            (_, Some(device)) => device.lines.push((0, words)),
            (_, None) => state.lines.push(words),
        }
    }
    state
}

fn number(words: &[String], at: usize) -> u64 {
    words[at].parse().unwrap_or_else(|_| panic!("no number in {words:?}"))
}

/// The state as the file has it now; read again only when it is another file.
fn state() -> Arc<State> {
    static KNOWN: Mutex<Option<((u64, u64, i64), Arc<State>)>> = Mutex::new(None);
    let path = place().join("state");
    let mut known = KNOWN.lock().expect("no panic inside");
    let Ok(about) = fs::metadata(&path) else { return Arc::default() };
    let key = (about.ino(), about.size(), about.mtime_nsec());
    if let Some((former, state)) = &*known
        && *former == key
    {
        return Arc::clone(state);
    }
    let state = Arc::new(parse(&fs::read_to_string(&path).unwrap_or_default()));
    *known = Some((key, Arc::clone(&state)));
    state
}

fn trace_ms(state: &State) -> u64 {
    static LOADED: OnceLock<Instant> = OnceLock::new();
    let loaded = LOADED.get_or_init(Instant::now);
    state.now.unwrap_or_else(|| loaded.elapsed().as_millis() as u64)
}

impl Device {
    /// All lines of a key that are in force: of those with a time, the last that has come.
    fn all(&self, state: &State, key: &str) -> Vec<&[String]> {
        let now = trace_ms(state);
        let mut of_key = self.lines.iter().filter(|(at, words)| words[0] == key && *at <= now).peekable();
        let last = of_key.clone().map(|(at, _)| *at).max();
        of_key.peek().is_some().then(|| last).flatten().map_or_else(Vec::new, |last| {
            let newest = of_key.filter(|(at, _)| *at == last).map(|(_, words)| &words[1..]);
            newest.filter(|values| !values.is_empty()).collect()
        })
    }

    fn one(&self, state: &State, key: &str) -> Option<&[String]> {
        self.all(state, key).pop()
    }
}

/// What the file wants of a call before it answers: a code, a delay, a hang. `device` is the handle or null.
fn rule(symbol: &str, device: Handle) -> Result<Arc<State>, c_int> {
    let mut state = state();
    if state.log {
        let uuid = resolve(&state, device).map_or("-", |device| device.uuid.as_str()).to_owned();
        let calls = OpenOptions::new().create(true).append(true).open(place().join("calls"));
        let _ = calls.and_then(|mut calls| calls.write_all(format!("{symbol} {uuid}\n").as_bytes()));
    }
    loop {
        let now = trace_ms(&state);
        let of_device = resolve(&state, device).map_or(&[][..], |device| &device.lines);
        let of_device = of_device.iter().filter(|(at, _)| *at <= now).map(|(_, words)| words);
        let rules = state.lines.iter().chain(of_device);
        let rules = rules.filter(|words| words.get(1).is_some_and(|word| word == symbol || word == "*"));
        let (mut code, mut delay, mut hang) = (SUCCESS, 0, false);
        for words in rules {
            match words[0].as_str() {
                "return" => code = number(words, 2) as c_int,
                "delay" => delay = number(words, 2),
                "hang" => hang = true,
                _ => {}
            }
        }
        if hang {
            std::thread::sleep(Duration::from_millis(5));
            state = self::state();
            continue;
        }
        std::thread::sleep(Duration::from_millis(delay));
        return if code == SUCCESS { Ok(state) } else { Err(code) };
    }
}

type Handle = *mut c_void;

fn handle(at: usize) -> Handle {
    (at + 1) as Handle
}

fn resolve(state: &State, device: Handle) -> Option<&Device> {
    state.devices.get((device as usize).checked_sub(1)?)
}

/// Answers a call: `rule` first, then the value.
fn answer(symbol: &str, device: Handle, give: impl FnOnce(&State, &Device) -> c_int) -> c_int {
    match rule(symbol, device) {
        Err(code) => code,
        Ok(_) if USERS.load(Ordering::SeqCst) == 0 => UNINITIALIZED,
        Ok(state) => resolve(&state, device).map_or(INVALID_ARGUMENT, |device| give(&state, device)),
    }
}

/// Answers with words of a line of the file.
fn value(symbol: &str, device: Handle, key: &str, give: impl FnOnce(&[String])) -> c_int {
    answer(symbol, device, |state, device| match device.one(state, key) {
        Some(words) => {
            give(words);
            SUCCESS
        }
        None => NOT_SUPPORTED,
    })
}

unsafe fn put_text(text: &str, to: *mut c_char, room: usize) -> c_int {
    if text.len() + 1 > room {
        return INSUFFICIENT_SIZE;
    }
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast::<c_char>(), to, text.len());
        *to.add(text.len()) = 0;
    }
    SUCCESS
}

// Start and end.

static USERS: AtomicUsize = AtomicUsize::new(0);

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> c_int {
    match rule("nvmlInit_v2", handle(usize::MAX - 1)) {
        Ok(_) => {
            USERS.fetch_add(1, Ordering::SeqCst);
            SUCCESS
        }
        Err(code) => code,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> c_int {
    let _ = rule("nvmlShutdown", handle(usize::MAX - 1));
    USERS.fetch_sub(1, Ordering::SeqCst);
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(to: *mut c_char, room: c_uint) -> c_int {
    unsafe { put_text(&state().driver, to, room as usize) }
}

// Devices.

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(count: *mut c_uint) -> c_int {
    match rule("nvmlDeviceGetCount_v2", handle(usize::MAX - 1)) {
        Ok(state) => {
            let whole = state.devices.iter().filter(|device| device.slice_of.is_none());
            unsafe { *count = whole.count() as c_uint };
            SUCCESS
        }
        Err(code) => code,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, to: *mut Handle) -> c_int {
    let known = state();
    let mut whole = (0..known.devices.len()).filter(|at| known.devices[*at].slice_of.is_none());
    let Some(at) = whole.nth(index as usize) else { return INVALID_ARGUMENT };
    answer("nvmlDeviceGetHandleByIndex_v2", handle(at), |_, _| {
        unsafe { *to = handle(at) };
        SUCCESS
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUUID(device: Handle, to: *mut c_char, room: c_uint) -> c_int {
    let give = |_: &State, device: &Device| unsafe { put_text(&device.uuid, to, room as usize) };
    answer("nvmlDeviceGetUUID", device, give)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(device: Handle, to: *mut c_char, room: c_uint) -> c_int {
    value("nvmlDeviceGetName", device, "name", |words| unsafe {
        put_text(&words.join(" "), to, room as usize);
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMinorNumber(device: Handle, to: *mut c_uint) -> c_int {
    value("nvmlDeviceGetMinorNumber", device, "minor", |words| unsafe { *to = number(words, 0) as c_uint })
}

#[repr(C)]
pub struct Pci {
    legacy: [c_char; 16],
    numbers: [c_uint; 5],
    bus_id: [c_char; 32],
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPciInfo_v3(device: Handle, to: *mut Pci) -> c_int {
    value("nvmlDeviceGetPciInfo_v3", device, "pci", |words| unsafe {
        *to = std::mem::zeroed();
        put_text(&words[0], (&raw mut (*to).bus_id).cast::<c_char>(), 32);
        put_text(&words[0], (&raw mut (*to).legacy).cast::<c_char>(), 16);
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetEnforcedPowerLimit(device: Handle, to: *mut c_uint) -> c_int {
    value("nvmlDeviceGetEnforcedPowerLimit", device, "power_limit", |words| unsafe {
        *to = number(words, 0) as c_uint;
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMaxClockInfo(device: Handle, _kind: c_uint, to: *mut c_uint) -> c_int {
    value("nvmlDeviceGetMaxClockInfo", device, "clock_max", |words| unsafe {
        *to = number(words, 0) as c_uint;
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetNvLinkState(device: Handle, link: c_uint, to: *mut c_uint) -> c_int {
    answer("nvmlDeviceGetNvLinkState", device, |state, device| match device.one(state, "nvlinks") {
        Some(words) if u64::from(link) < number(words, 1) => {
            unsafe { *to = c_uint::from(u64::from(link) < number(words, 0)) };
            SUCCESS
        }
        Some(_) => INVALID_ARGUMENT,
        None => NOT_SUPPORTED,
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigMode(
    device: Handle,
    current: *mut c_uint,
    pending: *mut c_uint,
) -> c_int {
    value("nvmlDeviceGetMigMode", device, "mig", |words| unsafe {
        *current = number(words, 0) as c_uint;
        *pending = *current;
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMaxMigDeviceCount(device: Handle, to: *mut c_uint) -> c_int {
    answer("nvmlDeviceGetMaxMigDeviceCount", device, |_, _| {
        unsafe { *to = 7 };
        SUCCESS
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(
    device: Handle,
    index: c_uint,
    to: *mut Handle,
) -> c_int {
    answer("nvmlDeviceGetMigDeviceHandleByIndex", device, |state, _| {
        let of_it =
            |at: &usize| state.devices[*at].slice_of.is_some_and(|(parent, _)| handle(parent) == device);
        match (0..state.devices.len()).filter(of_it).nth(index as usize) {
            Some(at) => {
                unsafe { *to = handle(at) };
                SUCCESS
            }
            None => NOT_FOUND,
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGpuInstanceId(device: Handle, to: *mut c_uint) -> c_int {
    answer("nvmlDeviceGetGpuInstanceId", device, |_, device| match device.slice_of {
        Some((_, instance)) => {
            unsafe { *to = instance };
            SUCCESS
        }
        None => NOT_SUPPORTED,
    })
}

// Readings.

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUtilizationRates(device: Handle, to: *mut [c_uint; 2]) -> c_int {
    value("nvmlDeviceGetUtilizationRates", device, "utilisation", |words| unsafe {
        *to = [number(words, 0) as c_uint, number(words, 1) as c_uint];
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo(device: Handle, to: *mut [c_ulonglong; 3]) -> c_int {
    value("nvmlDeviceGetMemoryInfo", device, "memory", |words| {
        let (total, used) = (number(words, 0), number(words, 1) + number(words, 2));
        unsafe { *to = [total, total - used, used] };
    })
}

#[cfg(not(old))]
#[repr(C)]
pub struct Memory2 {
    version: c_uint,
    total: c_ulonglong,
    reserved: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

#[cfg(not(old))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: Handle, to: *mut Memory2) -> c_int {
    let to = unsafe { &mut *to };
    if to.version as usize != size_of::<Memory2>() | 2 << 24 {
        return VERSION_MISMATCH;
    }
    value("nvmlDeviceGetMemoryInfo_v2", device, "memory", |words| {
        (to.total, to.used, to.reserved) = (number(words, 0), number(words, 1), number(words, 2));
        to.free = to.total - to.used - to.reserved;
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPowerUsage(device: Handle, to: *mut c_uint) -> c_int {
    value("nvmlDeviceGetPowerUsage", device, "power", |words| unsafe { *to = number(words, 0) as c_uint })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTotalEnergyConsumption(device: Handle, to: *mut c_ulonglong) -> c_int {
    value("nvmlDeviceGetTotalEnergyConsumption", device, "energy", |words| unsafe {
        *to = number(words, 0);
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTemperature(device: Handle, _sensor: c_uint, to: *mut c_uint) -> c_int {
    value("nvmlDeviceGetTemperature", device, "temperature", |words| unsafe {
        *to = number(words, 0) as c_uint;
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetClockInfo(device: Handle, kind: c_uint, to: *mut c_uint) -> c_int {
    // NVML_CLOCK_SM is 1, NVML_CLOCK_MEM 2.
    value("nvmlDeviceGetClockInfo", device, "clocks", |words| unsafe {
        *to = number(words, kind as usize - 1) as c_uint;
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCurrentClocksThrottleReasons(
    device: Handle,
    to: *mut c_ulonglong,
) -> c_int {
    value("nvmlDeviceGetCurrentClocksThrottleReasons", device, "throttle", |words| unsafe {
        *to = number(words, 0);
    })
}

/// Only there so that the tests can see that nobody calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPcieThroughput(
    device: Handle,
    _kind: c_uint,
    to: *mut c_uint,
) -> c_int {
    answer("nvmlDeviceGetPcieThroughput", device, |_, _| {
        unsafe { *to = 0 };
        SUCCESS
    })
}

#[repr(C)]
pub struct Field {
    id: c_uint,
    scope: c_uint,
    timestamp: i64,
    latency: i64,
    kind: c_uint,
    code: c_int,
    value: u64,
}

/// The number that a field has with this driver; the file has those of before 580.82.
fn renumbered(driver: &str, id: u64) -> u64 {
    let mut parts = driver.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    match id {
        251..=255 if version >= (580, 82) => id + 18,
        256..=273 if version >= (580, 82) => id - 5,
        id => id,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetFieldValues(device: Handle, count: c_int, to: *mut Field) -> c_int {
    let fields = unsafe { std::slice::from_raw_parts_mut(to, count as usize) };
    answer("nvmlDeviceGetFieldValues", device, |state, device| {
        let now = trace_ms(state);
        let in_force = device.lines.iter().filter(|(at, words)| words[0] == "field" && *at <= now);
        let known: Vec<&[String]> = in_force.map(|(_, words)| &words[1..]).collect();
        for field in fields {
            let of_it = |words: &&&[String]| {
                renumbered(&state.driver, number(words, 0)) == u64::from(field.id)
                    && words.get(2).is_none_or(|_| number(words, 2) == u64::from(field.scope))
            };
            let found = known.iter().rfind(of_it);
            (field.code, field.kind) = (found.map_or(NOT_SUPPORTED, |_| SUCCESS), 3);
            field.value = found.map_or(0, |words| number(words, 1));
        }
        SUCCESS
    })
}

// Processes.

#[repr(C)]
pub struct Process {
    pid: c_uint,
    memory: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

unsafe fn put_processes(symbol: &str, device: Handle, count: *mut c_uint, to: *mut Process) -> c_int {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    answer(symbol, device, |state, device| {
        let processes = device.all(state, "process");
        let hidden = device.one(state, "hidden").map_or(0, |words| number(words, 0) as usize);
        let room = unsafe { *count } as usize;
        let first = CALLS.fetch_add(1, Ordering::SeqCst) % 2 == 0;
        unsafe { *count = processes.len() as c_uint };
        if to.is_null() || room < processes.len() {
            if first {
                unsafe { *count = processes.len().saturating_sub(hidden) as c_uint };
            }
            return INSUFFICIENT_SIZE;
        }
        for (at, words) in processes.iter().enumerate() {
            let memory = if words[1] == "-" { u64::MAX } else { number(words, 1) };
            let (gpu_instance, compute_instance) = (c_uint::MAX, c_uint::MAX);
            let pid = number(words, 0) as c_uint;
            unsafe { to.add(at).write(Process { pid, memory, gpu_instance, compute_instance }) };
        }
        SUCCESS
    })
}

#[cfg(old)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v2(
    device: Handle,
    count: *mut c_uint,
    to: *mut Process,
) -> c_int {
    unsafe { put_processes("nvmlDeviceGetComputeRunningProcesses_v2", device, count, to) }
}

#[cfg(not(old))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    device: Handle,
    count: *mut c_uint,
    to: *mut Process,
) -> c_int {
    unsafe { put_processes("nvmlDeviceGetComputeRunningProcesses_v3", device, count, to) }
}

#[repr(C)]
pub struct ProcessUse {
    pid: c_uint,
    at_us: c_ulonglong,
    percents: [c_uint; 4],
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetProcessUtilization(
    device: Handle,
    to: *mut ProcessUse,
    count: *mut c_uint,
    _last_seen_us: c_ulonglong,
) -> c_int {
    answer("nvmlDeviceGetProcessUtilization", device, |state, device| {
        let samples = device.all(state, "use");
        let room = unsafe { *count } as usize;
        unsafe { *count = samples.len() as c_uint };
        if samples.is_empty() {
            return NOT_FOUND;
        }
        if to.is_null() || room < samples.len() {
            return INSUFFICIENT_SIZE;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64;
        for (at, words) in samples.iter().enumerate() {
            let percents = [number(words, 1) as c_uint, 0, 0, 0];
            unsafe { to.add(at).write(ProcessUse { pid: number(words, 0) as c_uint, at_us: now, percents }) };
        }
        SUCCESS
    })
}

// GPM: a sample remembers of which device it is.

#[repr(C)]
pub struct GpmSupport {
    version: c_uint,
    supported: c_uint,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlGpmQueryDeviceSupport(device: Handle, to: *mut GpmSupport) -> c_int {
    answer("nvmlGpmQueryDeviceSupport", device, |state, of| {
        let at = device as usize - 1;
        let slices = state.devices.iter().filter(|slice| slice.slice_of.is_some_and(|(of, _)| of == at));
        let has = slices.chain([of]).any(|device| device.one(state, "gpm").is_some());
        unsafe { (*to).supported = c_uint::from(has) };
        SUCCESS
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlGpmSampleAlloc(to: *mut *mut usize) -> c_int {
    unsafe { *to = Box::into_raw(Box::new(0)) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlGpmSampleFree(sample: *mut usize) -> c_int {
    drop(unsafe { Box::from_raw(sample) });
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlGpmSampleGet(device: Handle, sample: *mut usize) -> c_int {
    answer("nvmlGpmSampleGet", device, |_, _| {
        unsafe { *sample = device as usize };
        SUCCESS
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlGpmMigSampleGet(device: Handle, instance: c_uint, sample: *mut usize) -> c_int {
    answer("nvmlGpmMigSampleGet", device, |state, _| {
        let parent = device as usize - 1;
        match state.devices.iter().position(|slice| slice.slice_of == Some((parent, instance))) {
            Some(at) => {
                unsafe { *sample = handle(at) as usize };
                SUCCESS
            }
            None => NOT_FOUND,
        }
    })
}

#[repr(C)]
pub struct Metric {
    id: c_uint,
    code: c_int,
    value: f64,
    texts: [*const c_char; 3],
}

#[repr(C)]
pub struct Metrics {
    version: c_uint,
    count: c_uint,
    before: *mut usize,
    after: *mut usize,
    metrics: [Metric; 1],
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlGpmMetricsGet(request: *mut Metrics) -> c_int {
    let (count, device) = unsafe { ((*request).count as usize, *(*request).after as Handle) };
    let first = unsafe { (&raw mut (*request).metrics).cast::<Metric>() };
    let metrics = unsafe { std::slice::from_raw_parts_mut(first, count) };
    answer("nvmlGpmMetricsGet", device, |state, device| {
        let words = device.one(state, "gpm").unwrap_or_default();
        for metric in metrics {
            let place = [2, 3, 5, 10].iter().position(|id| *id == metric.id);
            let value = place.and_then(|at| words.get(at)?.parse().ok());
            (metric.code, metric.value) = (value.map_or(NOT_SUPPORTED, |_| SUCCESS), value.unwrap_or(0.0));
        }
        SUCCESS
    })
}

// Events: a set knows its devices and the last event that it told.

#[derive(Default)]
pub struct EventSet {
    devices: Mutex<Vec<String>>,
    told: AtomicU64,
}

#[repr(C)]
pub struct EventData {
    device: Handle,
    kind: c_ulonglong,
    data: c_ulonglong,
    instances: [c_uint; 2],
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlEventSetCreate(to: *mut *mut EventSet) -> c_int {
    let told = state().events.iter().map(|event| event.0).max().unwrap_or(0);
    let set = EventSet { told: AtomicU64::new(told), ..EventSet::default() };
    unsafe { *to = Box::into_raw(Box::new(set)) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlEventSetFree(set: *mut EventSet) -> c_int {
    drop(unsafe { Box::from_raw(set) });
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceRegisterEvents(
    device: Handle,
    _kinds: c_ulonglong,
    set: *mut EventSet,
) -> c_int {
    answer("nvmlDeviceRegisterEvents", device, |_, device| {
        unsafe { &*set }.devices.lock().expect("no panic inside").push(device.uuid.clone());
        SUCCESS
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlEventSetWait_v2(set: *mut EventSet, to: *mut EventData, ms: c_uint) -> c_int {
    let (set, until) = (unsafe { &*set }, Instant::now() + Duration::from_millis(ms.into()));
    let devices = set.devices.lock().expect("no panic inside").clone();
    loop {
        let state = state();
        let told = set.told.load(Ordering::SeqCst);
        let next = state.events.iter().filter(|event| event.0 > told && devices.contains(&event.1)).min();
        if let Some((number, uuid, xid)) = next {
            set.told.store(*number, Ordering::SeqCst);
            let at = state.devices.iter().position(|device| device.uuid == *uuid).expect("it is registered");
            // 8 is nvmlEventTypeXidCriticalError.
            unsafe { to.write(EventData { device: handle(at), kind: 8, data: *xid, instances: [0; 2] }) };
            return SUCCESS;
        }
        if Instant::now() >= until {
            return TIMEOUT;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
