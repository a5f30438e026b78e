/** The built-in templates, which are part of the dashboard's build. */
import { readTemplate, type Template } from '../../../../src/compose/template.ts'

const files = import.meta.glob<string>('../../../../templates/*.yaml', {
  query: '?raw',
  import: 'default',
  eager: true,
})

export const templates: readonly Template[] = Object.entries(files)
  .map(([path, compose]) => readTemplate(/([^/]+)\.yaml$/.exec(path)?.[1] ?? '', compose))
  .sort((one, other) => one.title.localeCompare(other.title))

export const categories = [...new Set(templates.map(({ category }) => category))].sort()
