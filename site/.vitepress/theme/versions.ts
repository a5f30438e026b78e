/** Shows the version of the documents, and a menu of the other versions in `versions.json` (written by build.ts). */
import { useData } from 'vitepress'
import { defineComponent, h, onMounted, ref } from 'vue'

interface Version {
  readonly version: string
  /** Prefix of the addresses of this version's pages, such as `/v/1.2.3/`. */
  readonly path: string
}

const isVersion = (value: unknown): value is Version =>
  typeof value === 'object' && value !== null && 'version' in value && 'path' in value

async function load(): Promise<readonly Version[]> {
  const answer = await fetch('/versions.json')
  const found: unknown = await answer.json()
  return Array.isArray(found) ? found.filter(isVersion) : []
}

/** Opens the current page in another version of the documents, or the first page if that version has no such page. */
async function open(path: string, base: string): Promise<void> {
  const same = `${path}${location.pathname.slice(base.length)}`
  const { ok } = await fetch(same, { method: 'HEAD' }).catch(() => ({ ok: false }))
  location.assign(ok ? same : path)
}

export const Versions = defineComponent({
  setup() {
    const { site, theme } = useData()
    const all = ref<readonly Version[]>([])
    // The development server has no versions.json; the menu then shows only the current version.
    onMounted(() =>
      load()
        .then(found => (all.value = found))
        .catch(() => undefined),
    )
    return () =>
      all.value.length < 2
        ? h('span', { class: 'versions' }, `Version ${theme.value.version}`)
        : h(
            'select',
            {
              class: 'versions',
              'aria-label': 'Version of the documents',
              value: site.value.base,
              onChange: ({ target }: Event) => {
                if (target instanceof HTMLSelectElement) void open(target.value, site.value.base)
              },
            },
            all.value.map(({ version, path }) => h('option', { value: path }, `Version ${version}`)),
          )
  },
})
