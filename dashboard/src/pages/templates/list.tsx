import { Link } from '@tanstack/react-router'
import { Search } from 'lucide-react'
import type { Template } from '../../../../src/compose/template.ts'
import { cx } from '../../ui/cx.ts'
import { SearchField, useFilter } from '../../ui/filter.tsx'
import { controlLook } from '../../ui/form.tsx'
import { Card, Page } from '../../ui/layout.tsx'
import { Empty } from '../../ui/states.tsx'
import { Badge } from '../../ui/status.tsx'
import { categories, templates } from './catalog.ts'
import { iconOf } from './icons.ts'

export function Templates() {
  const filter = useFilter('templates', ['find', 'category'])
  const [wanted, category] = [filter.of('find'), filter.of('category')]
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean)
  const found = templates.filter(one => {
    const text = `${one.name} ${one.title} ${one.description} ${one.category}`.toLowerCase()
    return (category === '' || one.category === category) && words.every(word => text.includes(word))
  })
  return (
    <Page title="Templates" lead="Ready-made apps: databases, websites and tools, each with its volumes and passwords.">
      <div className="mb-4 flex flex-wrap gap-3">
        <SearchField label="Find a template" value={wanted} onChange={value => filter.set('find', value)} />
        <select
          aria-label="Category"
          value={category}
          onChange={event => filter.set('category', event.target.value)}
          className={cx(controlLook, 'border-line-strong sm:max-w-48')}
        >
          <option value="">All categories</option>
          {categories.map(one => (
            <option key={one}>{one}</option>
          ))}
        </select>
      </div>
      {found.length === 0 ? (
        <Card>
          <Empty icon={Search} title="No template matches">
            Try another word or category. Any container image or compose file can be deployed as well.
          </Empty>
        </Card>
      ) : (
        <ul aria-label="Templates" className="grid gap-3 sm:grid-cols-2 lg:grid-cols-3">
          {found.map(one => (
            <TemplateCard key={one.name} template={one} />
          ))}
        </ul>
      )}
    </Page>
  )
}

function TemplateCard({ template: { name, title, description, category } }: { readonly template: Template }) {
  const Icon = iconOf(category)
  return (
    <li className="relative flex items-start gap-3 rounded-lg border border-line bg-surface p-4 transition-colors hover:border-line-strong">
      <span className="grid size-9 shrink-0 place-items-center rounded-lg border border-line bg-hover text-muted">
        <Icon aria-hidden="true" size={17} />
      </span>
      <div className="min-w-0 space-y-1.5">
        <Link
          to="/templates/$name"
          params={{ name }}
          className="block font-semibold after:absolute after:inset-0 hover:underline"
        >
          {title}
        </Link>
        <p className="text-muted">{description}</p>
        <Badge>{category}</Badge>
      </div>
    </li>
  )
}
