import { expect, it } from 'vitest'
import { builtFor, builtRepository, inRegistry } from './built-image.ts'

const app = '0191e4a0-0000-7000-8000-000000000001'
const hex = 'a'.repeat(64)

it.each([
  [`oci:app-${app}`, ''],
  [`oci:app-${app}:sha256-${hex}`, ''],
  [`registry.example:5000/apps/${app}@sha256:${hex}`, 'registry.example:5000/apps'],
  [`REGISTRY.example:5000/apps/${app}:latest`, 'registry.example:5000/apps'],
  [`registry.example:5000//apps/${app}`, 'registry.example:5000/apps'],
  [`registry.example/${app}/part`, 'registry.example'],
  [`team/${app}`, 'docker.io/team'],
  [`index.docker.io/team/${app}`, 'docker.io/team'],
  [`registry-1.docker.io/team/${app}:x`, 'team'],
  [`own.example:7050/mote.builds/${app}@sha256:${hex}`, ''],
  [`own.example:7050/mote.builds/${app}@sha256:${hex}`, 'registry.example'],
])('builtFor returns the id of the app for the image %s if MOTE_REGISTRY is "%s"', (image, registry) => {
  expect(builtFor(image, { registry, registryUrl: 'http://own.example:7050' })).toBe(app)
})

it.each([
  ['oci:postgres:16', 'registry.example'],
  ['oci:app-sample', 'registry.example'],
  [`other.example/apps/${app}`, 'registry.example/apps'],
  [`registry.example/apps-of-others/${app}`, 'registry.example/apps'],
  ['registry.example/apps/base:1', 'registry.example/apps'],
  [`registry.example/apps/${app}`, ''],
  [`own.example:7050/acme/${app}`, ''],
  [`own.example/mote.builds/${app}`, ''],
])('builtFor returns undefined for the image %s if MOTE_REGISTRY is "%s"', (image, registry) => {
  expect(builtFor(image, { registry, registryUrl: 'http://own.example:7050' })).toBeUndefined()
  expect(builtFor(image, { registry, registryUrl: '' })).toBeUndefined()
})

it.each([
  ['', 'http://own.example:7050', 1, null],
  ['', 'http://own.example:7050', 2, `own.example:7050/mote.builds/${app}`],
  ['', 'https://own.example', 3, `own.example/mote.builds/${app}`],
  ['', 'http://localhost:7050', 2, null],
  ['', 'http://127.0.0.1:7050', 2, null],
  ['', '', 2, null],
  ['registry.example/apps', 'http://own.example:7050', 1, `registry.example/apps/${app}`],
])(
  'with MOTE_REGISTRY "%s", the own registry of the installation at "%s" and %i hosts, builds are pushed to the repository %s',
  (registry, registryUrl, hosts, to) => {
    expect(builtRepository({ registry, registryUrl }, app, hosts)).toBe(to)
  },
)

it("inRegistry returns the app's id only for an image in the operator's registry, from which hosts pull with the operator's credentials", () => {
  expect(inRegistry(`oci:app-${app}`, 'registry.example')).toBeUndefined()
  expect(inRegistry(`registry.example/${app}`, 'registry.example')).toBe(app)
})
