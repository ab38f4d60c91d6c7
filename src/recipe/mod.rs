//! Definition files of images, written from recipes for a target. Pure.
