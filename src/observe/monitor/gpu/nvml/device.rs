//! One GPU or one slice of it: its values at one moment.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::gpm::gpm_metrics_get;
use nvml_wrapper::struct_wrappers::device::ProcessUtilizationSample;
use nvml_wrapper::{GpmSample, Nvml as Library};
use nvml_wrapper_sys::bindings::{field_id, nvmlDevice_t, nvmlGpmSample_t};

use super::raw::{self, error_of};
use crate::foundation::clock::now_ms;
use crate::observe::monitor::gpu::{GpuError, GpuProcess, GpuRead};
use crate::record::{GpuFacts, GpuReading};

/// How often error counters are read, and values asked for again that were not supported.
const SLOW: Duration = Duration::from_secs(60);
/// GPM wants this much time between two samples (NVML's header).
const GPM_APART: Duration = Duration::from_millis(100);
/// For how long a sample of a process's use stands for that process. The driver makes one every 1/6 s to 1 s.
const USE_FRESH_US: u64 = 2_000_000;
/// Scope of a field: all links together.
const ALL_LINKS: u32 = u32::MAX;
/// SM utilisation, occupancy, any tensor unit, memory bandwidth.
const GPM_METRICS: [GpmMetricId; 4] = [
    GpmMetricId::SmUtil,
    GpmMetricId::SmOccupancy,
    GpmMetricId::AnyTensorUtil,
    GpmMetricId::DramBwUtil,
];

/// NVML's own name of a device; valid until NVML is shut down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Handle(pub(super) nvmlDevice_t);

// SAFETY: NVML is thread-safe, and a handle is only a name that is given back to it.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    pub(super) fn new(device: &nvml_wrapper::Device<'_>) -> Self {
        // SAFETY: the handle is kept beside the library that it is of.
        Self(unsafe { device.handle() })
    }

    fn device(self, library: &Library) -> nvml_wrapper::Device<'_> {
        // SAFETY: the handle came from this library, which is still initialised.
        unsafe { nvml_wrapper::Device::new(self.0, library) }
    }
}

/// What a device is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A GPU as it was built.
    Whole,
    /// A GPU that is divided: it has power and clocks, but its use is that of its slices.
    Divided,
    /// A MIG slice: it has memory and processes, and GPM through its parent.
    Slice {
        /// The GPU that it is part of.
        parent: Handle,
        /// Its number among the parent's instances.
        instance: u32,
    },
}

/// A value that a GPU may not have.
#[derive(Debug, Clone, Copy)]
enum Value {
    Utilisation,
    Memory,
    Power,
    Temperature,
    SmClock,
    MemClock,
    Throttle,
    Fields,
    Errors,
    Processes,
    ProcessUse,
    Gpm,
}

/// What is remembered from one reading to the next.
#[derive(Debug, Default)]
struct Memory {
    slow_at: Option<Instant>,
    ecc: [Option<u64>; 2],
    /// Bits of [`Value`]s that are not supported.
    absent: u32,
    failure: Option<GpuError>,
    use_seen_us: u64,
    /// Per pid, the time of the newest sample and its percent.
    used: BTreeMap<u32, (u64, u64)>,
    gpm: Option<(Instant, Sample)>,
}

/// A GPM sample; freed by [`Device::forget_samples`].
#[derive(Debug)]
struct Sample(nvmlGpmSample_t);

// SAFETY: a sample is a buffer without its own thread; the lock of `Memory` lets one thread at it at a time.
unsafe impl Send for Sample {}

/// One device and what is remembered of it.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) uuid: Arc<str>,
    pub(super) facts: Arc<GpuFacts>,
    pub(super) handle: Handle,
    pub(super) kind: Kind,
    gpm: bool,
    memory: Mutex<Memory>,
}

impl Device {
    pub(super) fn new(facts: GpuFacts, handle: Handle, kind: Kind, gpm: bool) -> Self {
        // Without a start the driver would hand out all that it remembers.
        let memory = Memory {
            use_seen_us: now_us().saturating_sub(USE_FRESH_US),
            ..Memory::default()
        };
        let uuid = facts.uuid.as_str().into();
        Self {
            uuid,
            facts: Arc::new(facts),
            handle,
            kind,
            gpm,
            memory: Mutex::new(memory),
        }
    }

    /// Reads all that this kind of device has.
    pub(super) fn read(&self, library: &Library) -> Result<GpuRead, GpuError> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.failure = None;
        let now = Instant::now();
        let slow = memory
            .slow_at
            .is_none_or(|at| now.duration_since(at) >= SLOW);
        if slow {
            (memory.slow_at, memory.absent) = (Some(now), 0);
        }
        let mut reading = GpuReading::of(Arc::clone(&self.uuid));
        let device = self.handle.device(library);
        let memory_info = memory.ask(Value::Memory, || device.memory_info())?;
        reading.mem_used_bytes = memory_info.map(|info| info.used);
        if !matches!(self.kind, Kind::Slice { .. }) {
            self.read_board(library, &mut memory, &mut reading)?;
            self.read_counters(library, &mut memory, &mut reading, slow)?;
        }
        let processes = match self.kind {
            // They are on its slices.
            Kind::Divided => None,
            Kind::Whole | Kind::Slice { .. } => self.processes(library, &mut memory)?,
        };
        if self.gpm && self.kind != Kind::Divided {
            self.read_gpm(library, &mut memory, &mut reading)?;
        }
        let nothing = processes.is_none() && reading.values().iter().all(Option::is_none);
        match memory.failure.take() {
            Some(failure) if nothing => Err(failure),
            _ => Ok(GpuRead { reading, processes }),
        }
    }

    /// What the board shows at this moment.
    fn read_board(
        &self,
        library: &Library,
        memory: &mut Memory,
        reading: &mut GpuReading,
    ) -> Result<(), GpuError> {
        let device = self.handle.device(library);
        if self.kind == Kind::Whole
            && let Some(rates) = memory.ask(Value::Utilisation, || device.utilization_rates())?
        {
            reading.utilisation_percent = Some(rates.gpu.into());
            reading.mem_utilisation_percent = Some(rates.memory.into());
        }
        let mut ask = |value, ask: &dyn Fn() -> Result<u32, NvmlError>| {
            let answer = memory.ask(value, ask)?;
            Ok(answer.map(u64::from))
        };
        reading.power_milliwatts = ask(Value::Power, &|| device.power_usage())?;
        reading.temperature_celsius = ask(Value::Temperature, &|| {
            device.temperature(TemperatureSensor::Gpu)
        })?;
        reading.sm_clock_mhz = ask(Value::SmClock, &|| device.clock_info(Clock::SM))?;
        reading.mem_clock_mhz = ask(Value::MemClock, &|| device.clock_info(Clock::Memory))?;
        reading.throttle_reasons = memory
            .ask(Value::Throttle, || device.current_throttle_reasons())?
            .map(|reasons| reasons.bits());
        Ok(())
    }

    /// What the driver counts. NVLink's counters are in KiB, or on newer GPUs in bytes under another field.
    fn read_counters(
        &self,
        library: &Library,
        memory: &mut Memory,
        reading: &mut GpuReading,
        slow: bool,
    ) -> Result<(), GpuError> {
        let wanted = [
            (field_id::NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, 0),
            (field_id::NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 0),
            (field_id::NVML_FI_DEV_PCIE_COUNT_RX_BYTES, 0),
            (field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ALL_LINKS),
            (field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, ALL_LINKS),
            (field_id::NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES, ALL_LINKS),
            (field_id::NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES, ALL_LINKS),
        ];
        let fields = memory.ask(Value::Fields, || {
            raw::fields(library.lib(), self.handle.0, wanted)
        })?;
        let [energy, pcie_tx, pcie_rx, tx_kib, rx_kib, tx, rx] = fields.unwrap_or_default();
        let bytes = |kib: Option<u64>| kib.map(|kib| kib.saturating_mul(1024));
        reading.energy_millijoules = energy;
        (reading.pcie_tx_bytes, reading.pcie_rx_bytes) = (pcie_tx, pcie_rx);
        (reading.nvlink_tx_bytes, reading.nvlink_rx_bytes) =
            (bytes(tx_kib).or(tx), bytes(rx_kib).or(rx));
        if slow {
            let wanted = [
                (field_id::NVML_FI_DEV_ECC_SBE_VOL_TOTAL, 0),
                (field_id::NVML_FI_DEV_ECC_DBE_VOL_TOTAL, 0),
            ];
            let errors = memory.ask(Value::Errors, || {
                raw::fields(library.lib(), self.handle.0, wanted)
            })?;
            memory.ecc = errors.unwrap_or_default();
        }
        [reading.ecc_corrected, reading.ecc_uncorrected] = memory.ecc;
        Ok(())
    }

    fn processes(
        &self,
        library: &Library,
        memory: &mut Memory,
    ) -> Result<Option<Vec<GpuProcess>>, GpuError> {
        let device = self.handle.device(library);
        let found = memory.ask(Value::Processes, || raw::compute_processes(&device))?;
        let Some(mut found) = found else {
            return Ok(None);
        };
        if self.kind == Kind::Whole {
            let seen = memory.use_seen_us;
            let samples = memory.ask(Value::ProcessUse, || {
                raw::process_utilisation(&device, seen)
            })?;
            if let Some(samples) = samples {
                memory.take_use_in(&samples, &mut found);
            }
        }
        Ok(Some(found))
    }

    fn read_gpm(
        &self,
        library: &Library,
        memory: &mut Memory,
        reading: &mut GpuReading,
    ) -> Result<(), GpuError> {
        let now = Instant::now();
        if memory
            .gpm
            .as_ref()
            .is_some_and(|(at, _)| now.duration_since(*at) < GPM_APART)
        {
            return Ok(());
        }
        let taken = memory.ask(Value::Gpm, || match self.kind {
            Kind::Slice { parent, instance } => parent.device(library).gpm_mig_sample(instance),
            Kind::Whole | Kind::Divided => self.handle.device(library).gpm_sample(),
        })?;
        let Some(taken) = taken else { return Ok(()) };
        // SAFETY: the sample is of this library, and nothing else has it any more.
        let before = (memory.gpm.take())
            .map(|(_, sample)| unsafe { GpmSample::from_handle(library, sample.0) });
        let metrics = match &before {
            Some(before) => memory.ask(Value::Gpm, || {
                gpm_metrics_get(library, before, &taken, &GPM_METRICS)
            }),
            None => Ok(None),
        };
        memory.gpm = Some((now, Sample(taken.into_handle())));
        let Some(metrics) = metrics? else {
            return Ok(());
        };
        let shares = std::array::from_fn(|at| {
            let metric = metrics.get(at)?.as_ref().ok()?;
            Some(metric.value)
                .filter(|value| value.is_finite())
                .map(basis_points)
        });
        [
            reading.gpm_sm_basis_points,
            reading.gpm_occupancy_basis_points,
            reading.gpm_tensor_basis_points,
            reading.gpm_dram_basis_points,
        ] = shares;
        Ok(())
    }

    /// Frees what NVML lent; before it is shut down. A device whose reading hangs keeps its sample.
    pub(super) fn forget_samples(&self, library: &Library) {
        if let Ok(mut memory) = self.memory.try_lock()
            && let Some((_, sample)) = memory.gpm.take()
        {
            // SAFETY: the sample is of this library, and nothing else has it any more.
            drop(unsafe { GpmSample::from_handle(library, sample.0) });
        }
    }
}

impl Memory {
    /// Asks for a value unless it is known not to be supported. `None`: this GPU does not say.
    fn ask<T>(
        &mut self,
        value: Value,
        ask: impl FnOnce() -> Result<T, NvmlError>,
    ) -> Result<Option<T>, GpuError> {
        let bit = 1 << (value as u32);
        if self.absent & bit != 0 {
            return Ok(None);
        }
        let failure = match ask() {
            Ok(answer) => return Ok(Some(answer)),
            Err(error) => error_of(&error),
        };
        match failure {
            GpuError::Lost | GpuError::NoDriver => return Err(failure),
            GpuError::NotSupported => self.absent |= bit,
            _ => {}
        }
        self.failure = Some(failure);
        Ok(None)
    }

    /// Adds to each process its newest sample. A process without one since a while uses nothing.
    fn take_use_in(&mut self, samples: &[ProcessUtilizationSample], processes: &mut [GpuProcess]) {
        for sample in samples {
            self.use_seen_us = self.use_seen_us.max(sample.timestamp);
            let newest = self.used.entry(sample.pid).or_default();
            *newest = (*newest).max((sample.timestamp, u64::from(sample.sm_util)));
        }
        let now = now_us();
        self.used
            .retain(|_, (at_us, _)| at_us.saturating_add(USE_FRESH_US) >= now);
        for process in processes {
            process.sm_percent = Some(
                self.used
                    .get(&process.pid)
                    .map_or(0, |(_, percent)| *percent),
            );
        }
    }
}

/// Hundredths of a percent; GPM reads a little over 100 % at times.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is between 0 and 10000"
)]
fn basis_points(percent: f64) -> u64 {
    (percent * 100.0).round().clamp(0.0, 10_000.0) as u64
}

/// NVML's times of samples are Unix microseconds.
fn now_us() -> u64 {
    now_ms().saturating_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_a_new_sample_keeps_its_use_for_a_while_only() {
        let mut memory = Memory::default();
        let process = |pid| GpuProcess {
            pid,
            mem_bytes: None,
            sm_percent: None,
        };
        let sample = |pid, timestamp, sm_util| ProcessUtilizationSample {
            pid,
            timestamp,
            sm_util,
            mem_util: 0,
            enc_util: 0,
            dec_util: 0,
        };
        let now = now_us();
        let mut found = [process(1), process(2), process(3)];
        let old = now - 2 * USE_FRESH_US;
        memory.take_use_in(
            &[
                sample(1, now - 2, 10),
                sample(1, now - 1, 20),
                sample(1, now - 3, 5),
                sample(2, old, 90),
            ],
            &mut found,
        );
        assert_eq!(
            found.map(|process| process.sm_percent),
            [Some(20), Some(0), Some(0)]
        );
        assert_eq!(memory.use_seen_us, now - 1);
        memory.take_use_in(&[], &mut found);
        assert_eq!(found[0].sm_percent, Some(20));
    }

    #[test]
    fn what_is_not_supported_is_asked_once_and_a_lost_gpu_ends_the_reading() {
        let mut memory = Memory::default();
        assert_eq!(
            memory.ask::<u8>(Value::Gpm, || Err(NvmlError::NotSupported)),
            Ok(None)
        );
        assert_eq!(
            memory.ask::<u8>(Value::Gpm, || panic!("asked again")),
            Ok(None)
        );
        assert_eq!(
            memory.ask::<u8>(Value::Power, || Err(NvmlError::Timeout)),
            Ok(None)
        );
        assert_eq!(memory.ask(Value::Power, || Ok(7)), Ok(Some(7)));
        assert_eq!(
            memory.ask::<u8>(Value::Fields, || Err(NvmlError::GpuLost)),
            Err(GpuError::Lost)
        );
    }

    #[test]
    fn shares_are_hundredths_of_a_percent() {
        assert_eq!(
            [0.004, 12.345, 100.2, -1.0].map(basis_points),
            [0, 1235, 10_000, 0]
        );
    }
}
