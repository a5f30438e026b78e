import { expect, it } from 'vitest'
import { builtFor, inRegistry } from './built-image.ts'

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
])('%s was built for the app, with the registry "%s"', (image, registry) => {
  expect(builtFor(image, registry)).toBe(app)
})

it.each([
  ['oci:postgres:16', 'registry.example'],
  ['oci:app-sample', 'registry.example'],
  [`other.example/apps/${app}`, 'registry.example/apps'],
  [`registry.example/apps-of-others/${app}`, 'registry.example/apps'],
  ['registry.example/apps/base:1', 'registry.example/apps'],
  [`registry.example/apps/${app}`, ''],
])('%s is no built image, with the registry "%s"', (image, registry) => {
  expect(builtFor(image, registry)).toBeUndefined()
})

it('only an image in the registry is fetched with the credentials of the operator', () => {
  expect(inRegistry(`oci:app-${app}`, 'registry.example')).toBeUndefined()
  expect(inRegistry(`registry.example/${app}`, 'registry.example')).toBe(app)
})
