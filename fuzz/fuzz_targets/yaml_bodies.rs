#![no_main]

holdfast_fuzz::target!();
