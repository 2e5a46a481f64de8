/** What a provider finds out about an image without decoding it. */

/** What the first bytes of each kind are. */
const MAGIC: readonly (readonly [string, RegExp])[] = [
  ['image/png', /^\x89PNG/],
  ['image/jpeg', /^\xff\xd8\xff/],
  ['image/gif', /^GIF8/],
  ['image/webp', /^RIFF....WEBP/s],
]

export const PICTURE_TYPES = MAGIC.map(([type]) => type)

export const isBase64 = (data: string): boolean => data.length % 4 === 0 && /^[A-Za-z0-9+/]+={0,2}$/.test(data)

/** By its first bytes; undefined for what is no image. */
export function pictureTypeOf(base64: string): string | undefined {
  const head = Buffer.from(base64.slice(0, 24), 'base64').toString('latin1')
  return MAGIC.find(([, magic]) => magic.test(head))?.[0]
}

/** A web address, or an image that is what its data URL says. */
export function isImageUrl(url: unknown): boolean {
  if (typeof url !== 'string') return false
  if (/^https?:\/\//.test(url)) return true
  const [, type, data = ''] = /^data:(image\/[a-z]+);base64,(.*)$/s.exec(url) ?? []
  return isBase64(data) && pictureTypeOf(data) === type
}
