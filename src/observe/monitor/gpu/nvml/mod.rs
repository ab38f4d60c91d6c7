//! NVIDIA's driver, through its library NVML.
//!
//! What never changes is asked once, when the reader is opened; what changes at every reading; error counters of the
//! memory once a minute. What a GPU does not support is not asked again for a minute. Left out on purpose:
//! `nvmlDeviceGetPcieThroughput`, which is busy for 20 ms per call, and everything that wants root.

mod device;
mod events;
mod raw;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use nvml_wrapper::Nvml as Library;
use nvml_wrapper::enum_wrappers::device::Clock;
use nvml_wrapper::error::NvmlError;
use tracing::debug;

use super::place::place;
use super::{GpuError, GpuRead, GpuReader, GpuXid};
use crate::record::{GpuFacts, GpuPlace};
use device::{Device, Handle, Kind};
use events::XidWatch;
use raw::error_of;

/// Where the dynamic linker finds the library of the loaded driver.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// `NVML_NVLINK_MAX_LINKS`.
const MOST_NVLINKS: u32 = 18;

/// NVML, initialised. Dropping it waits for up to two seconds for its thread of events: only after the last of a
/// process is gone does another find lost GPUs again.
#[derive(Debug)]
pub struct Nvml {
    // Dropped in this order: the thread of events holds the library too.
    xids: XidWatch,
    devices: Vec<Device>,
    refused: Vec<(u32, GpuError)>,
    library: Arc<Library>,
}

impl Nvml {
    /// Loads and initialises NVML from `library`, else from where the dynamic linker finds it, and looks at all GPUs. May
    /// take seconds where the driver is not kept loaded (persistence mode off).
    ///
    /// A GPU that this user may not read, or that is lost, is in [`GpuReader::refused`].
    ///
    /// # Errors
    /// Where there is no library or no driver, or the driver is not of the library's version.
    pub fn open(library: Option<&Path>) -> Result<Self, GpuError> {
        let path: OsString =
            library.map_or_else(|| LIBRARY.into(), |path| path.as_os_str().to_owned());
        let library = Arc::new(load(&path)?);
        let driver = library.sys_driver_version().ok();
        let (mut devices, mut refused) = (Vec::new(), Vec::new());
        for index in 0..library.device_count().map_err(|error| error_of(&error))? {
            let device = library.device_by_index(index);
            match device.and_then(|device| look_at(&device, driver.as_deref())) {
                Ok(found) => devices.extend(found),
                Err(error) => {
                    debug!(index, %error, "a GPU is left out");
                    refused.push((index, error_of(&error)));
                }
            }
        }
        let is_gpu = |device: &&Device| !matches!(device.kind, Kind::Slice { .. });
        let xids = XidWatch::start(&library, devices.iter().filter(is_gpu));
        Ok(Self {
            xids,
            devices,
            refused,
            library,
        })
    }
}

impl GpuReader for Nvml {
    fn devices(&self) -> Vec<Arc<GpuFacts>> {
        self.devices
            .iter()
            .map(|device| Arc::clone(&device.facts))
            .collect()
    }

    fn refused(&self) -> Vec<(u32, GpuError)> {
        self.refused.clone()
    }

    fn read(&self, uuid: &str) -> Result<GpuRead, GpuError> {
        let device = self
            .devices
            .iter()
            .find(|device| *device.uuid == *uuid)
            .ok_or(GpuError::NotFound)?;
        let mut read = device.read(&self.library)?;
        read.reading.xid_errors = self.xids.count(uuid);
        Ok(read)
    }

    fn take_xids(&self) -> Vec<GpuXid> {
        self.xids.take()
    }
}

impl Drop for Nvml {
    fn drop(&mut self) {
        self.xids.stop();
        for device in &self.devices {
            device.forget_samples(&self.library);
        }
    }
}

fn load(path: &OsStr) -> Result<Library, GpuError> {
    Library::builder().lib_path(path).init().map_err(|error| {
        let library = || path.to_string_lossy().into_owned();
        match error {
            NvmlError::LibloadingError(reason) => {
                GpuError::NoLibrary(library(), reason.to_string())
            }
            NvmlError::FailedToLoadSymbol(reason) => GpuError::NoLibrary(library(), reason),
            other => error_of(&other),
        }
    })
}

/// A GPU and, where it is divided, its slices.
fn look_at(
    device: &nvml_wrapper::Device<'_>,
    driver: Option<&str>,
) -> Result<Vec<Device>, NvmlError> {
    let uuid = device.uuid()?;
    let mig = device.mig_mode().ok().map(|mode| mode.current == 1);
    let pci_bus_id = device.pci_info().ok().map(|pci| pci.bus_id);
    let lies = pci_bus_id.as_deref().map(|id| place(id, Path::new("/sys")));
    let facts = GpuFacts {
        name: device.name().unwrap_or_default(),
        minor: device.minor_number().ok(),
        pci_bus_id,
        mem_total_bytes: device.memory_info().ok().map(|memory| memory.total),
        power_limit_watts: device
            .enforced_power_limit()
            .ok()
            .map(|milliwatts| milliwatts.div_ceil(1000)),
        sm_clock_max_mhz: device.max_clock_info(Clock::SM).ok(),
        mig,
        parent: None,
        driver: driver.map(str::to_owned),
        place: GpuPlace {
            nvlinks: active_nvlinks(device),
            ..lies.unwrap_or_default()
        },
        uuid,
    };
    let gpm = device.gpm_support().unwrap_or(false);
    let kind = if mig == Some(true) {
        Kind::Divided
    } else {
        Kind::Whole
    };
    let mut found = vec![Device::new(facts.clone(), Handle::new(device), kind, gpm)];
    if kind == Kind::Divided {
        let places = device.mig_device_count().unwrap_or(0);
        let slices = (0..places).filter_map(|index| device.mig_device_by_index(index).ok());
        found.extend(slices.filter_map(|slice| look_at_slice(&slice, device, &facts, gpm)));
    }
    Ok(found)
}

/// `None`: it has no NVLinks.
fn active_nvlinks(device: &nvml_wrapper::Device<'_>) -> Option<u32> {
    let mut links =
        (0..MOST_NVLINKS).map_while(|link| device.link_wrapper_for(link).is_active().ok());
    let first = links.next()?;
    Some(u32::from(first) + links.map(u32::from).sum::<u32>())
}

fn look_at_slice(
    slice: &nvml_wrapper::Device<'_>,
    parent: &nvml_wrapper::Device<'_>,
    of_parent: &GpuFacts,
    gpm: bool,
) -> Option<Device> {
    let facts = GpuFacts {
        uuid: slice.uuid().ok()?,
        name: slice.name().unwrap_or_else(|_| of_parent.name.clone()),
        mem_total_bytes: slice.memory_info().ok().map(|memory| memory.total),
        // Power is drawn and limited by the GPU as a whole.
        power_limit_watts: None,
        mig: None,
        parent: Some(of_parent.uuid.clone()),
        ..of_parent.clone()
    };
    let handle = Handle::new(slice);
    let instance = raw::gpu_instance(parent.nvml().lib(), handle.0).ok();
    let gpm = gpm && instance.is_some();
    let kind = Kind::Slice {
        parent: Handle::new(parent),
        instance: instance.unwrap_or(0),
    };
    Some(Device::new(facts, handle, kind, gpm))
}
