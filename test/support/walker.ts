/** Drives the dashboard as a signed-in user, in a separate browser. */
import type { Browser, BrowserContextOptions, Locator } from 'playwright-core'
import { afterAll, beforeAll, describe } from 'vitest'
import { noBrowser, openBrowser, type Visit, visit } from './browser.ts'
import { runsAll } from './all-examples.ts'
import type { TestSystem, TestUser } from './system.ts'

/**
 * Window sizes and color schemes in which a suite walks through the dashboard. The phone is used only in `npm run test:all`, because
 * dashboard-pages.test.ts opens every page at that size with every change.
 */
export const looks = [
  { name: 'light, desktop', colorScheme: 'light', viewport: { width: 1280, height: 860 } } as const,
  ...(runsAll ? [{ name: 'dark, phone', colorScheme: 'dark', viewport: { width: 390, height: 844 } } as const] : []),
]

/**
 * `describe` for suites that need a browser. Without a browser, the suite is skipped, and its title names the reason.
 */
export const browserSuite = noBrowser
  ? (name: string, tests: () => void) => describe.skip(`${name}: skipped, ${noBrowser}`, tests)
  : describe

/** Prepares a browser suite. What `make` adds to `undo` is disposed of after the suite, and if `make` fails. */
export function prepare(make: (browser: Browser, undo: AsyncDisposableStack) => Promise<void>): void {
  let made: AsyncDisposableStack | undefined
  beforeAll(async () => {
    if (noBrowser) return
    await using undo = new AsyncDisposableStack()
    await make(await openBrowser(), undo)
    made = undo.move()
  }, 120_000)
  afterAll(() => made?.disposeAsync())
}

export interface Walker extends Visit {
  readonly user: TestUser
  /** Opens a page of the dashboard, and waits for its heading. */
  open(path: string, heading: string | RegExp): Promise<void>
  button(name: string | RegExp): Locator
  field(label: string): Locator
  readonly dialog: Locator
  /** Waits until a text, such as a toast message, is on the page. */
  says(text: string | RegExp): Promise<void>
  row(name: string | RegExp): Locator
  /** Fills in the fields of the open dialog and clicks its button, which closes it. */
  send(fields: Readonly<Record<string, string>>, submit: string): Promise<void>
  /** Types the name that a dialog requires before a destructive action, and clicks its button. */
  confirm(verb: string, name: string): Promise<void>
}

export async function walker(
  system: TestSystem,
  browser: Browser,
  options: BrowserContextOptions = { viewport: { width: 1280, height: 860 } },
  email?: string,
): Promise<Walker> {
  const user = await system.user(email)
  const observed = await visit(browser, `http://127.0.0.1:${system.control.port}`, options)
  const { page } = observed
  await page.goto('/signin')
  await page.getByLabel('Email').fill(user.email)
  await page.getByLabel('Password').fill(user.password)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('heading', { level: 1, name: 'Apps' }).waitFor()
  return { ...observed, user, ...handsOf(observed), [Symbol.asyncDispose]: () => observed[Symbol.asyncDispose]() }
}

function handsOf({ page, unanswered }: Visit): Omit<Walker, keyof Visit | 'user'> {
  const dialog = page.getByRole('dialog')
  const submitted = async (name: string) => {
    await dialog.getByRole('button', { name, exact: true }).click()
    await dialog.waitFor({ state: 'detached' }).catch(async (cause: unknown) => {
      const reasons = unanswered.slice(-5).join('\n')
      throw new Error(`the dialog did not close: ${await dialog.innerText()}\n${reasons}`, { cause })
    })
  }
  return {
    dialog,
    async open(path, heading) {
      await page.goto(path)
      await page.getByRole('heading', { level: 1, name: heading }).waitFor()
    },
    button: name => page.getByRole('button', { name }).first(),
    field: label => page.getByLabel(label, { exact: true }),
    says: text => page.getByText(text).first().waitFor(),
    row: name => page.getByRole('row', { name }),
    async send(fields, submit) {
      for (const [label, value] of Object.entries(fields)) {
        const field = dialog.getByLabel(label, { exact: true })
        if ((await field.evaluate(element => element.tagName)) === 'SELECT') await field.selectOption(value)
        else await field.fill(value)
      }
      await submitted(submit)
    },
    async confirm(verb, name) {
      await dialog.getByLabel(`Type ${name} to confirm`).fill(name)
      await submitted(`${verb} ${name}`)
    },
  }
}
