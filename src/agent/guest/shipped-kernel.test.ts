import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { expect, test } from 'vitest'
import { testDir } from '../../../test/support/agent/agent.ts'
import { ensureKernel } from './kernel.ts'
import { ownKernelDir } from './own-kernel.ts'
import { shippedKernel, shippedManifest } from './shipped-kernel.ts'

test("the hash in the shipped kernel's manifest is that of the current configuration and patches", async () => {
  const { configHash } = await shippedManifest()
  expect(basename(await ownKernelDir('/cache')), 'build it again: guest/kernel/README.md').toBe(configHash)
})

test('the shipped kernel is an ELF file with the pinned checksum and the options that every VMM needs', async () => {
  await using dir = await testDir()
  const found = await shippedKernel(dir.path)
  const vmlinux = await readFile(join(found, 'vmlinux'))
  const { sha256, version } = await shippedManifest()
  expect(createHash('sha256').update(vmlinux).digest('hex')).toBe(sha256)
  expect(vmlinux.subarray(0, 4).toString('latin1')).toBe('\x7fELF')
  expect(vmlinux.includes(`Linux version ${version}`)).toBe(true)
  const config = await readFile(join(found, 'config'), 'utf8')
  const perVmm = {
    qemu: ['VIRTIO_MMIO', 'VIRTIO_MMIO_CMDLINE_DEVICES', 'PVH', 'SCSI_VIRTIO', 'VIRTIO_CONSOLE'],
    firecracker: ['VIRTIO_MMIO', 'VIRTIO_VSOCKETS', 'SERIAL_8250_CONSOLE'],
    'cloud-hypervisor': ['VIRTIO_PCI', 'VIRTIO_VSOCKETS', 'ACPI', 'HOTPLUG_PCI_ACPI', 'PVH'],
    guests: ['EROFS_FS', 'EXT4_FS', 'OVERLAY_FS', 'IPV6', 'VIRTIO_BALLOON', 'PAGE_REPORTING', 'BPF_SYSCALL'],
  }
  for (const [what, options] of Object.entries(perVmm))
    for (const option of options) expect(config, `${what} needs ${option}`).toContain(`CONFIG_${option}=y\n`)
})

test('ensureKernel returns the shipped kernel and builds an initramfs, without a distribution package', async () => {
  await using dir = await testDir()
  const kernel = await ensureKernel(dir.path, () => undefined)
  expect(kernel).toMatchObject({ devices: 'command-line', version: (await shippedManifest()).version })
  expect(await readdir(dir.path)).toEqual(expect.arrayContaining(['kernel-shipped', 'initrd', 'init']))
})
