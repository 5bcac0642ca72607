package eval

// keyWords are the words that keys are made of: ordinary English, each once.
const keyWords = `
acorn actor album alley almond amber anchor angle ankle apple apron arbor arch arena armor arrow
ashen atlas attic autumn avenue award badge bagel baker ballad bamboo banner barge barley barrel basil
basin basket beacon beagle beaver bellow bench berry bicycle birch biscuit bishop blanket blossom blue boiler
bonnet border bottle boulder bracket bramble branch brass bread breeze brick bridge bright bronze brook broom
brush bucket buckle bugle bundle bunker burlap butter button cabin cable cactus camel candle canoe
canvas canyon captain caravan cargo carpet carrot cartoon castle cattle cavern cedar cellar cement chalk
chamber channel chapel cherry chess chimney chorus cider cinder circle citrus clarinet clever cliff climate
clover coast cobalt coffee collar colony comet compass copper coral corner cotton cougar council cousin
cradle crane crater crayon cricket crimson crown crystal curtain cushion cypress dagger dairy daisy dancer
dawn decade delta denim desert dinner dipper distant dizzy dolphin domino donkey double dragon drawer
drift drum dusty eager eagle early easel echo eclipse elbow elder ember emerald empire engine
envelope evening fabric falcon famous farmer fathom feather fennel ferry fiddle field finch finger fisher
flannel flavor flint flock flower flute folder forest forge fossil fountain foxes frame freight friend
frost frozen furnace gallery gallop gander garden garlic garnet gather gentle geyser giant ginger glacier
glass glider globe glove golden goose grain granite grape gravel gravity green grocer grove guitar
gutter hammer hamlet hammock handle harbor harness harp harvest hazel heather hedge helmet heron hickory
hidden hollow honest honey hornet horse hotel humble hunter hurdle husky iceberg indigo inkwell insect
inland island ivory jacket jaguar jasmine jelly jersey jewel jigsaw jolly journey judge jumper jungle
juniper kennel kettle keyhole kindle kingdom kitchen kite kitten knight ladder lagoon lamp lantern larch
latch laundry lavender leaf leather ledger legend lemon lentil letter level library lilac linen lively
lizard lobster locket locust lodge lotus lumber lunar lyric magnet magpie mallet mammoth mango mantle
maple marble margin marina market marsh mason meadow medal mellow melody melon mentor mercury metal
meteor midnight mighty mill mineral mirror mitten modest molten monarch monsoon moose mortar mosaic mountain
muffin museum music mustard napkin narrow native nectar needle nephew nettle nickel nimble noble noodle
north notebook nutmeg oasis oats ocean octave olive onion opal opera orange orbit orchard orchid
organ osprey otter oven oyster paddle painter palace panther paper parade parcel parrot parsley pasture
patrol pavement peach peanut pearl pebble pelican pencil pepper pepperoni piano pickle picnic pigeon pillar
pillow pilot pine pioneer pirate pitcher planet plaster platter plaza plenty plum pocket poem polar
polish pollen pond pony poplar poppy porch portrait potato pottery powder prairie printer prism proud
pudding puffin pulley pumpkin puppet purple puzzle quarry quartz quick quiet quill quilt rabbit raccoon
radio radish raft railway rainbow raisin ranch rapid raven razor recipe reef ribbon ridge ripple
river robin rocket rooster rosemary rough rubber ruby rudder runner rustic sable saddle saffron sailor
salad salmon salt sandal sapling satin saucer scallop scarf school scooter scribble season second sentry
shadow shallow sheep shell shelter sherbet shiver shovel shrimp signal silent silver simple singer sketch
slate sleepy sleeve slipper smooth snail socket solar soldier sonnet south sparrow spice spider spindle
spinach spiral splendid sponge spring spruce squash squirrel stable stadium stamp starling station steady steam
steeple stencil stitch stone storm story stout stream summer summit sunset surfer swallow sweater swift
sycamore symbol table tailor talent tandem tangerine tango teacher teapot temple tender tennis theater thicket
thimble thistle thread thunder ticket tiger timber tinsel toast tomato topaz torch tortoise tower tractor
trader trail travel treasure trellis tribute trophy trout trumpet tulip tundra tunnel turnip turtle twilight
umbrella uncle upper urban valley vanilla vapor vault velvet vendor vessel village vine vinegar violet
violin visitor vivid volcano voyage waffle wagon walnut walrus warden water weasel weaver western whale
wheat whisker whistle wicker willow window winter wisdom wizard wolf wonder wooden wreath yacht yarn
yellow yogurt young zebra zenith zigzag zinc zipper
`
