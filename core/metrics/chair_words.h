// core/metrics/chair_words.h -- the fixed tables of core/metrics/chair.c: plurals, which it looks
// up before it applies its rules, and synonyms of COCO's 80 categories. The lists are our own.
// CHAIR's authors list more words for some objects, so scores differ if a caption uses a word
// missing here.
//
// clang-format off

// Plural, singular.
static const char *const plurals[][2] = {
    { "people", "person" }, { "men", "man" }, { "women", "woman" }, { "children", "child" },
    { "firemen", "fireman" }, { "policemen", "policeman" }, { "knives", "knife" },
    { "wives", "wife" }, { "calves", "calf" }, { "mice", "mouse" }, { "geese", "goose" },
    { "oxen", "ox" }, { "buses", "bus" }, { "gases", "gas" }, { "leaves", "leaf" },
    { "shelves", "shelf" }, { "loaves", "loaf" }, { "scarves", "scarf" }, { "wolves", "wolf" },
    { "feet", "foot" }, { "teeth", "tooth" }, { "neckties", "necktie" }, { "ties", "tie" },
    { "pies", "pie" }, { "cookies", "cookie" }, { "selfies", "selfie" }, { "movies", "movie" },
    { "doggies", "doggie" }, { "skis", "skis" }, { "ski", "skis" }, { "scissors", "scissors" },
    { "sheep", "sheep" }, { "cattle", "cow" }, { "bison", "bison" }, { "cacti", "cactus" },
    { "axes", "axe" }, { "shoes", "shoe" }, { "canoes", "canoe" }, { "glasses", "glass" },
    { "gloves", "glove" },
};

// "OBJECT: word or words, ..."; without an object, the words name no object.
static const char *const synonyms[] = {
    ("person: man, woman, boy, girl, child, kid, baby, toddler, infant, guy, lady, gentleman, "
     "player, skier, surfer, snowboarder, skateboarder, rider, cyclist, driver, pedestrian, "
     "chef, officer, policeman, fireman, batter, catcher, pitcher, passenger, tennis player, "
     "baseball player, soccer player"),
    "bicycle: bike",
    "car: automobile, sedan, suv, taxi, cab",
    "motorcycle: motorbike, scooter, moped, motor bike, motor cycle",
    "airplane: plane, aeroplane, jet, aircraft, jetliner",
    "bus: minibus, school bus",
    "train: locomotive, tram, passenger train",
    "truck: pickup, lorry, firetruck",
    "boat: ship, canoe, kayak, yacht, sailboat, ferry",
    "traffic light: stoplight, traffic signal, stop light",
    "fire hydrant: hydrant",
    "stop sign: stopsign",
    "parking meter: parkingmeter",
    "bird: pigeon, seagull, duck, goose, parrot, swan, owl, baby bird, baby duck",
    "cat: kitten, kitty",
    "dog: puppy, hound, doggie",
    "horse: pony, foal, stallion, baby horse",
    "sheep: lamb, ram, goat, baby sheep",
    "cow: ox, bull, calf, baby cow",
    "bear: polar bear, grizzly, baby bear",
    "backpack: knapsack, rucksack",
    "umbrella: parasol",
    "handbag: purse, hand bag",
    "tie: necktie",
    "suitcase: luggage, suit case",
    "frisbee: disc",
    "snowboard: snow board",
    "sports ball: ball, soccer ball, tennis ball, baseball, football, basketball",
    "baseball bat: bat",
    "baseball glove: glove, mitt",
    "skateboard: skate board",
    "surfboard: surf board",
    "tennis racket: racket, racquet, tennis racquet",
    "wine glass: wineglass",
    "cup: mug, teacup",
    "donut: doughnut",
    "hot dog: hotdog",
    "cake: cupcake, cheesecake",
    "chair: stool, armchair, recliner",
    "couch: sofa, loveseat",
    "potted plant: houseplant, pottedplant, plant",
    "bed: mattress, crib",
    "dining table: table, diningtable, desk",
    "toilet: urinal, commode, toilet seat",
    "tv: television, tvmonitor, monitor",
    "laptop: notebook computer, laptop computer",
    "remote: remote control, tv remote",
    "cell phone: cellphone, phone, telephone, smartphone, mobile phone",
    "oven: stove",
    "refrigerator: fridge",
    "teddy bear: teddy, teddybear, stuffed bear",
    "hair drier: hairdryer, hair dryer, blow dryer",
    "toothbrush: tooth brush",
    "elephant: baby elephant",
    "giraffe: baby giraffe",
    "zebra: baby zebra",
    (": toilet paper, baseball game, baseball field, soccer field, football field, "
     "basketball court, train station, train track, bus stop, bus station, boat dock, "
     "bird house, dog house, car seat, table cloth, bed sheet"),
    "mouse: computer mouse",
};
// clang-format on
