/** Serves the OpenAPI document and an API explorer that loads nothing from the internet. */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { AppFile } from '../../appfile/schema.ts'
import { lazily } from '../../lib/once.ts'
import { apiDocsOperations } from './schema.ts'
import { pageHeaders } from '../http/headers.ts'
import { buildOpenApi } from './openapi.ts'
import type { Pages } from '../http/ports.ts'
import { type Feature, feature, JsonText, type Operation } from '../http/operation.ts'

const assetTypes = {
  'swagger-ui.css': 'text/css; charset=utf-8',
  'swagger-ui-bundle.js': 'text/javascript; charset=utf-8',
  'favicon-32x32.png': 'image/png',
} as const
const assetPath = '/v1/docs/assets'

const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Mote API</title>
<link rel="stylesheet" href="${assetPath}/swagger-ui.css">
<link rel="icon" type="image/png" href="${assetPath}/favicon-32x32.png">
</head>
<body>
<main id="explorer"></main>
<script src="${assetPath}/swagger-ui-bundle.js"></script>
<script src="${assetPath}/start.js"></script>
</body>
</html>
`
const startScript = `SwaggerUIBundle({
  url: '/v1/api-docs/openapi.json',
  dom_id: '#explorer',
  deepLinking: true,
  filter: true,
  docExpansion: 'none',
  persistAuthorization: false,
  validatorUrl: null,
})
`

export function apiDocsFeature(operations: Readonly<Record<string, Operation>>): Feature {
  // The document is serialized once, at the first request: it has about a megabyte and is the same for all callers.
  const document = lazily(() => new JsonText(JSON.stringify(buildOpenApi(operations))))
  const appFile = lazily(() => new JsonText(JSON.stringify(AppFile)))
  return feature(apiDocsOperations, {
    getOpenApi: { read: async () => document() },
    getAppFileSchema: { read: async () => appFile() },
    getExplorer: { read: async () => page },
  })
}

/** Serves the scripts and styles of the API explorer from its npm package (`@fastify/swagger-ui`). */
export const apiDocsPages: Pages = { serves: () => false, register: registerAssets }

function registerAssets(app: FastifyInstance): void {
  const directory = join(dirname(createRequire(import.meta.url).resolve('@fastify/swagger-ui/package.json')), 'static')
  const headers = (type: string) => ({
    'content-type': type,
    'content-security-policy': pageHeaders['content-security-policy'],
    'cache-control': 'public, max-age=3600',
  })
  for (const [name, type] of Object.entries(assetTypes))
    app.get(`${assetPath}/${name}`, async (_request, reply) =>
      reply.headers(headers(type)).send(readFileSync(join(directory, name))),
    )
  app.get(`${assetPath}/start.js`, async (_request, reply) =>
    reply.headers(headers('text/javascript; charset=utf-8')).send(startScript),
  )
}
