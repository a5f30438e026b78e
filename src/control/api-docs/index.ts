/** Documentation of the API: the OpenAPI document and a page to explore it. */
export { apiDocsFeature, apiDocsPages } from './docs.ts'
