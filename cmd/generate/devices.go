package main

import (
	"errors"
	"strconv"
	"strings"

	"blitzen/cuda"
	"blitzen/device"
	"blitzen/host"

	"github.com/spf13/pflag"
)

// deviceFlags say where a model is computed, and how.
type deviceFlags struct {
	device   string
	dtype    string
	threads  int
	products string
	eager    bool
	sync     bool
	bounds   bool
}

func (d *deviceFlags) register(f *pflag.FlagSet) {
	f.StringVar(&d.device, "device", "auto", "run the model on `DEVICE`: cpu, cuda, cuda:1; auto is a GPU, if any")
	f.StringVar(&d.dtype, "dtype", "auto", "compute with `TYPE`: bf16, f32; auto is bf16 on a GPU, f32 on the CPU")
	f.IntVarP(&d.threads, "threads", "t", 0, "use `N` CPU threads (default: all)")
	f.StringVar(&d.products, "products", "c", "on the CPU, multiply many rows by `ENGINE`: c, gomlx")
	f.BoolVar(&d.eager, "eager", false, "on a GPU, issue every decode step anew in place of replaying a graph")
	f.BoolVar(&d.sync, "sync", false, "on a GPU, wait after every kernel, so that an error names it; slow")
	f.BoolVar(&d.bounds, "bounds", false, "on a GPU, --sync with kernels that check every address; slower")
}

// maxThreads is more than any machine has use for.
const maxThreads = 1024

// dtypes are the values of --dtype.
var dtypes = map[string]device.DType{"auto": device.Invalid, "bf16": device.BF16, "f32": device.F32}

// products are the values of --products.
var products = map[string]host.Products{"c": host.ProductsC, "gomlx": host.ProductsGoMLX}

// gpu is the number of the GPU that --device names; asked is false for auto,
// and use for cpu.
func (d *deviceFlags) gpu() (ordinal int, use, asked bool, err error) {
	switch kind, number, numbered := strings.Cut(d.device, ":"); {
	case d.device == "cpu":
		return 0, false, true, nil
	case d.device == "auto":
		return 0, true, false, nil
	case kind == "cuda" && !numbered:
		return 0, true, true, nil
	case kind == "cuda":
		n, err := strconv.ParseUint(number, 10, 16)
		if err == nil {
			return int(n), true, true, nil
		}
	}
	return 0, false, false, usagef("--device %q: want cpu, cuda, cuda:N or auto", d.device)
}

// check refuses flags before anything is opened.
func (d *deviceFlags) check() error {
	_, gpu, asked, err := d.gpu()
	_, known := dtypes[d.dtype]
	_, engine := products[d.products]
	switch {
	case err != nil:
		return err
	case !known:
		return usagef("--dtype %q: want auto, bf16 or f32", d.dtype)
	case !engine:
		return usagef("--products %q: want c or gomlx", d.products)
	case d.threads < 0 || d.threads > maxThreads:
		return usagef("--threads %d: want 0 (all) to %d", d.threads, maxThreads)
	case asked && !gpu:
		return d.checkCPU("")
	}
	return nil
}

// checkCPU refuses what only a GPU does.
func (d *deviceFlags) checkCPU(why string) error {
	switch {
	case d.dtype == "bf16":
		return usagef("--dtype bf16: the CPU computes with f32 alone: leave --dtype out%s", why)
	case d.eager || d.sync || d.bounds:
		return usagef("--eager, --sync and --bounds are for GPUs: leave them out with --device cpu%s", why)
	}
	return nil
}

// open opens the device. how says what auto chose and why, "" where the user
// chose.
func (d *deviceFlags) open() (dev device.Device, how string, err error) {
	ordinal, gpu, asked, err := d.gpu()
	if err != nil {
		return nil, "", err
	}
	var without error
	if gpu {
		dev, without = openGPU(ordinal, *d)
		switch {
		case without == nil && !asked:
			return dev, "a GPU can be used", nil
		case without == nil || asked:
			return dev, "", without
		}
		how = "no GPU can be used: " + briefly(without)
		if err := d.checkCPU("; " + how); err != nil {
			return nil, "", err
		}
	}
	dev, err = host.New(host.Options{Threads: d.threads, Products: products[d.products]})
	return dev, how, err
}

// isGPU tells the devices apart: the one with a clock of its own is the GPU.
func isGPU(dev device.Device) bool {
	_, gpu := dev.(device.Profiler)
	return gpu
}

// briefly is what failed, without the places tried and the advice, which
// --device cuda prints.
func briefly(err error) string {
	parts := strings.SplitN(err.Error(), ": ", 3)
	return strings.Join(parts[:min(len(parts), 2)], ": ") + " (--device cuda says more)"
}

func openGPU(ordinal int, d deviceFlags) (device.Device, error) {
	dtype := dtypes[d.dtype]
	if dtype == device.Invalid {
		dtype = device.BF16
	}
	dev, err := cuda.Open(cuda.Options{Ordinal: ordinal, DType: dtype, Eager: d.eager, Sync: d.sync, Bounds: d.bounds})
	if err != nil {
		return nil, errors.New(strings.Join(strings.Fields(err.Error()), " ")) // one line
	}
	return dev, nil
}
